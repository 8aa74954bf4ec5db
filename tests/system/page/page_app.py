"""What the page shows: jobs that work, fail, wait and say nasty things, and a flow."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from shunter import App, Context
from shunter.flow.jobs import flow_jobs

app = App(version="1.4.2")


@app.job
def add(a: int, b: int) -> int:
    return a + b


@app.job
def echo(value: object = None) -> object:
    print(value)
    return value


@app.job
def fail(message: str) -> None:
    raise RuntimeError(message)


@app.job
def hold(ctx: Context, folder: str, seconds: float = 60.0) -> str:
    """Run until a file says so."""
    until, gate, step = time.monotonic() + seconds, Path(folder) / "go", 0
    while not gate.exists() and time.monotonic() < until:
        step += 1
        ctx.progress(step, 1000, note="holding")
        print(f"held for {step} steps")
        time.sleep(0.1)
    return "held"


@app.job(concurrency=10)
async def hold_together(word: str, folder: str) -> str:
    """Run until a file says so, among others in one process."""
    step = 0
    while not (Path(folder) / "go").exists():
        step += 1
        print(f"{word} held for {step} steps")
        await asyncio.sleep(0.1)
    return word


@app.job
def order(ctx: Context, number: int) -> str:
    """Pay, and wait until somebody approves."""
    paid = ctx.step("pay", lambda: f"receipt of {number}")
    ctx.wait("approved")
    return paid


flow_jobs(app, Path(os.environ["SHUNTER_WITNESS"]).parent / "flows")
