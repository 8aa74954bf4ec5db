"""Handlers that share a process, and tell the witness when they run."""

from __future__ import annotations

import asyncio
import time

from witness_app import tell

from shunter import App, Context

app = App()


@app.job(concurrency=20)
async def nap(number: int, seconds: float, context: Context) -> int:
    tell("start", context)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(0.01)
        tell("tick", context)
    tell("end", context)
    return number


@app.job(concurrency=10)
def doze(number: int, seconds: float, context: Context) -> int:
    tell("start", context)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not context.cancelled():
        time.sleep(0.01)
        tell("tick", context)
    tell("end", context)
    return number


@app.job
def alone(number: int, context: Context) -> int:
    tell("start", context)
    tell("end", context)
    return number


@app.job(concurrency=20)
async def deaf(context: Context) -> None:
    tell("start", context)
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:
            tell("ignored", context)


@app.job(concurrency=20)
async def block(context: Context) -> None:
    tell("start", context)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            tell("ignored", context)
