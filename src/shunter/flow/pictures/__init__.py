"""Pictures of flows, as SVG. Pure."""
