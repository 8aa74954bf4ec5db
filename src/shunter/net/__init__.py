"""Transports: sockets on the event loop, calls over HTTP, either end of the UDP dialogue."""
