"""Flows on engines: processes with inboxes, joined by ZeroMQ where they are not one process."""
