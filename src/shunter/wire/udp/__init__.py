"""The UDP dialogue: packets, transmissions, signatures. Pure."""
