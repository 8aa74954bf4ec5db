"""A night's work: extract, a flow over what was extracted, a report. Each is a job.

    shunter up --app examples/nightly/app.py
    python examples/nightly/run.py

The flow runs on Spark and is a node like any other: it waits for what is extracted, and the report
waits for it. `run.py engines` and `run.py local` need no Java.
"""

from __future__ import annotations

import json
from pathlib import Path

from shunter import App, Context
from shunter.flow.jobs import flow_jobs

HERE = Path(__file__).parent
app = App()
flow_jobs(app, folder=HERE)


@app.job
def extract(count: int) -> int:
    """Write the night's events to where the flow reads them."""
    lines = (json.dumps({"number": number}) for number in range(count))
    (HERE / "events.jsonl").write_text("\n".join(lines) + "\n")
    return count


@app.job
def report(ctx: Context) -> str:
    """Say how much the flow has written, and what it says of itself."""
    rows = [json.loads(line) for line in (HERE / "squares.jsonl").read_text().splitlines()]
    (flow,) = ctx.parents.values()
    return (
        f"{len(rows)} squares up to {max(row['square'] for row in rows)}; flow {flow.status.word}"
    )
