"""All decisions about jobs, over the store's contract: intake, placing, turns, sweeps."""
