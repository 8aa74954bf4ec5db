"""Submit a night's work, and print what came of it; the flow runs on Spark, or where you say.

python examples/nightly/run.py [spark|engines|local]
"""

from __future__ import annotations

import sys

from shunter import Client

on = sys.argv[1] if len(sys.argv) > 1 else "spark"

with Client() as client:
    with client.workflow("nightly") as run:
        events = run.job("extract", 100)
        squares = run.job("shunter.flow", "squares.py", on=on, after=events)
        last = run.job("report", after=squares)
    print(last.result(timeout=120))
