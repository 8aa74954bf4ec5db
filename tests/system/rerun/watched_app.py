"""The example's app, with a witness of how each run of its job ended."""

from __future__ import annotations

import os
from pathlib import Path

from shunter import Context
from shunter.app import load_app

app = load_app(str(Path(__file__).parents[3] / "examples" / "reports" / "app.py"))
report = app.find("report")


@app.job
def watched(ctx: Context, folder: str, accounts: int, pause: float, mongodb: str) -> int:
    """Only the first run pauses: while it does, it is in no transaction and can be suspended."""
    ending = "published"
    pause = pause if ctx.attempt == 1 else 0.0
    try:
        total: int = report(ctx, folder, "11", accounts, pause, mongodb)
        return total
    except BaseException as error:
        ending = type(error).__name__
        raise
    finally:
        with open(os.environ["SHUNTER_WITNESS"], "a") as witness:
            witness.write(f"{ctx.attempt} {ending}\n")
