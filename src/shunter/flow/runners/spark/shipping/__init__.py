"""How code gets to executors."""
