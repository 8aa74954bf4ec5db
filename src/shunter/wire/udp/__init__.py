"""The UDP dialogue of seed 003: packets, transmissions, signatures. Pure."""
