"""Letters to subscribers."""
