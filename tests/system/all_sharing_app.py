"""Handlers of which none wants to be alone."""

from __future__ import annotations

from sharing_app import deaf, nap

from shunter import App

app = App()
app.job(concurrency=20)(nap)
app.job(concurrency=20)(deaf)
