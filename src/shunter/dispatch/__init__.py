"""All decisions about jobs, over the store's contract: intake, placement, turns, sweeps."""
