"""Handlers that end in ways which no handler can tell of, and a hook that tells a witness, a file.

While there is a file beside the witness that is called `slow`, the hook takes long.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from shunter import App, Context, JobFailed

WITNESS = Path(os.environ["SHUNTER_WITNESS"])
app = App()


def tell(*words: object) -> None:
    with WITNESS.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@app.on_final_failure
def given_up(ctx: Context, error: BaseException) -> None:
    kind = error.kind if isinstance(error, JobFailed) else type(error).__name__
    tell("given-up", ctx.job_id, ctx.job_type, ctx.attempt, kind)
    while (WITNESS.parent / "slow").exists():
        time.sleep(0.01)


@app.job
def hang(ctx: Context) -> None:
    tell("begins", ctx.job_id)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


@app.job
def perish(ctx: Context) -> None:
    tell("begins", ctx.job_id)
    os.kill(os.getpid(), signal.SIGKILL)


@app.job
def refuse() -> None:
    raise ValueError("no")


@app.job
def add(x: int, y: int) -> int:
    return x + y
