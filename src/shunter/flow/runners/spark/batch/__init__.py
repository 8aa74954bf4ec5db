"""A run of a flow to its end: chains of stages as Spark's tasks, envelopes between them."""
