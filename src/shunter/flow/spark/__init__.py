"""Flows on Spark: the graph becomes Spark's own plan, so shuffle, retry and scale are Spark's.

`batch.py` runs a flow to its end. PySpark is imported when a session is first asked for.
"""
