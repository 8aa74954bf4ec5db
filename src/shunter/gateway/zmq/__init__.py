"""The ZeroMQ gateway: clients at the frontend, workers at the backend."""
