"""Handlers about whose jobs somebody asks why they do not run."""

from __future__ import annotations

import time
from pathlib import Path

from shunter import App, Context, Limit

app = App(version="1.4")


@app.job
def add(x: int, y: int) -> int:
    return x + y


@app.job(limit=Limit(1))
def alone(folder: str) -> None:
    """Run until a file says so."""
    while not (Path(folder) / "go").exists():
        time.sleep(0.05)


@app.job
def signed(ctx: Context) -> str:
    ctx.wait("approved by two")
    return "signed"
