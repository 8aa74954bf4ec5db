"""A run of a flow as a stream: micro-batch by micro-batch, each counted exactly once."""
