"""Where jobs and workers are kept: one contract, and its implementations."""
