"""Sockets and task groups: what turns bytes into arrivals, and decisions into bytes."""
