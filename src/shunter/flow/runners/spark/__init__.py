"""Flows on Spark: the graph becomes Spark's own plan, so shuffle, retry and scale are Spark's.

PySpark is imported when a session is first asked for.
"""
