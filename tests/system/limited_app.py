"""The witness app's work, five at once for each tenant."""

from __future__ import annotations

import witness_app

from shunter import App, Context, Limit

app = App()


@app.job(limit=Limit(5, by="tenant"))
def work(number: int, seconds: float, context: Context) -> int:
    return witness_app.work.function(number, seconds, context)
