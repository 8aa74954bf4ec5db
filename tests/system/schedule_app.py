"""An app that declares a schedule, and says for which tick it runs."""

from __future__ import annotations

from shunter import App, Context, Every

app = App()


@app.job(schedule=Every(1), overlap="all")
def beat(context: Context) -> float | None:
    return context.scheduled


@app.job
def add(a: int, b: int = 0) -> int:
    return a + b
