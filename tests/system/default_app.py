"""An app that does what plain clients and plain workers call a job: bytes in, bytes out."""

from __future__ import annotations

from shunter import App

app = App()


@app.job(name="default")
def default(data: bytes) -> bytes:
    return data
