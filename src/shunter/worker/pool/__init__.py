"""The child processes of a worker: what starts them, feeds them, watches them and ends them."""
