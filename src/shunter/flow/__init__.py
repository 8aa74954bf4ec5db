"""Flows: graphs of plain functions and classes that events pass through.

`graph.py` is what a user writes, `plan.py` where it runs. The rest moves events along it.
"""
