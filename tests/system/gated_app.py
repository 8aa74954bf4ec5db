"""Handlers whose first child starts at once; all others wait until a file beside the witness,
called `open`, is there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from shunter import App, Context

WITNESS = Path(os.environ["SHUNTER_WITNESS"])
app = App()


class Gate:
    """What a child has passed that was let in."""


@app.setup
def gate() -> Iterator[Gate]:
    try:
        WITNESS.with_name("first").touch(exist_ok=False)
    except FileExistsError:
        while not WITNESS.with_name("open").exists():
            time.sleep(0.01)
    yield Gate()


@app.job
def pid(gate: Gate) -> int:
    return os.getpid()


@app.job
def meet(count: int, gate: Gate, context: Context) -> int:
    """End when so many are here at a time."""
    here = WITNESS.with_name("here")
    here.mkdir(exist_ok=True)
    (here / context.job_id).touch()
    while len(list(here.iterdir())) < count:
        time.sleep(0.02)
    return os.getpid()
