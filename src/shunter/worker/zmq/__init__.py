"""A worker that is connected by ZeroMQ, and how its window is divided among dispatchers."""
