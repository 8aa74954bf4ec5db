"""Stages that Spark does itself, in its own columns."""
