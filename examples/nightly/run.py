"""Submit a night's work, and print what came of it."""

from __future__ import annotations

from shunter import Client

with Client() as client:
    with client.workflow("nightly") as run:
        events = run.job("extract", 100)
        squares = run.job("shunter.flow", "squares.py", on="local", after=events)
        last = run.job("report", after=squares)
    print(last.result(timeout=60))
