"""What a user writes: sources, stages, routes, windows and sinks; and its checks. Pure."""
