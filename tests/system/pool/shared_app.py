"""Handlers that share their process with others, and one that does not."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from pathlib import Path

from shunter.app import App, Context
from shunter.context import current_context

app = App()


@app.job(concurrency=50)
async def nap(seconds: float = 0.0, number: int = 0) -> int:
    await asyncio.sleep(seconds)
    return number


@app.job(concurrency=50)
async def meet(count: int, folder: str, ctx: Context) -> int:
    """Return when so many runs are here at a time, and in which process."""
    (Path(folder) / ctx.job_id).touch()
    while len(list(Path(folder).iterdir())) < count:
        await asyncio.sleep(0.005)
    return os.getpid()


@app.job(concurrency=20)
def meet_in_threads(count: int, folder: str, ctx: Context) -> int:
    (Path(folder) / ctx.job_id).touch()
    while len(list(Path(folder).iterdir())) < count:
        time.sleep(0.005)
    return threading.get_ident()


@app.job
def alone(seconds: float = 0.0) -> tuple[int, bool]:
    """Say who else is in this process."""
    time.sleep(seconds)
    return os.getpid(), threading.current_thread() is threading.main_thread()


@app.job(concurrency=50)
async def talk(word: str, turns: int, ctx: Context) -> str:
    for turn in range(turns):
        print(word, turn)
        logging.getLogger("talk").warning("%s logs", word)
        ctx.progress(turn + 1, turns)
        await asyncio.sleep(0.01)
    await asyncio.to_thread(print, word, "from a thread", file=sys.stderr)
    return current_context().job_id  # type: ignore[union-attr]


@app.job(concurrency=50)
def talk_in_thread(word: str) -> str:
    print(word)
    time.sleep(0.02)
    print(word, "again")
    return current_context().job_id  # type: ignore[union-attr]


@app.job(concurrency=50)
async def count(word: str, folder: str, size: int = 0) -> None:
    """Print one line after the other until there is a file of that name."""
    number = 0
    while not (Path(folder) / word).exists():
        print(word, number, "x" * size)
        number += 1
        await asyncio.sleep(0.02)


@app.job(concurrency=50)
def count_in_thread(word: str, folder: str) -> None:
    number = 0
    while not (Path(folder) / word).exists():
        logging.getLogger("count").warning("%s %s", word, number)
        number += 1
        time.sleep(0.02)


@app.job
def count_alone(word: str, folder: str) -> None:
    count_in_thread(word, folder)


@app.job(concurrency=50)
async def utter() -> None:
    print("\ud800")


@app.job(concurrency=50)
async def deaf(marker: str) -> None:
    """Ignore all requests to stop, but wait as one should."""
    while True:
        try:
            Path(marker).touch()
            await asyncio.sleep(60)
        except BaseException:
            continue


@app.job(concurrency=50)
async def block(marker: str, seconds: float = 60.0, is_stubborn: bool = False) -> str:
    Path(marker).touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            time.sleep(seconds)  # the line that blocks
        except BaseException:
            if not is_stubborn:
                raise
    return "done"


@app.job(concurrency=50)
async def block_in_task(marker: str) -> None:
    async def inner() -> None:
        Path(marker).touch()
        time.sleep(60)

    await asyncio.create_task(inner())


@app.job(concurrency=20)
def sleep_in_thread(marker: str, seconds: float) -> None:
    Path(marker).touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


@app.job(concurrency=50)
async def die() -> None:
    os.kill(os.getpid(), 9)


@app.job(concurrency=50)
async def fail() -> None:
    raise ValueError("oh")
