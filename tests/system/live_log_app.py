"""Handlers that print until a file says that it is enough, each in its own way."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from shunter import AesCodec, App, Context, Retry

app = App()
sharing = App()
"""All of its types share processes, so that HTTP workers and calculators have several at a time."""


async def count(word: str, folder: str) -> int:
    number = 0
    while not (Path(folder) / word).exists():
        number += 1
        print(f"{word} has {number}")
        await asyncio.sleep(0.05)
    print(f"{word} has all")
    return number


def count_in_thread(word: str, folder: str) -> int:
    number = 0
    while not (Path(folder) / word).exists():
        number += 1
        logging.getLogger("count").warning("%s has %s", word, number)
        time.sleep(0.05)
    print(f"{word} has all")
    return number


sealing = App(codec=AesCodec({"k1": bytes(32)}))

for each in (app, sharing, sealing):
    each.job(concurrency=20)(count)
    each.job(concurrency=20)(count_in_thread)


@app.job(retry=Retry(limit=1, delay=0.0, jitter=0.0))
def twice(folder: str, ctx: Context) -> None:
    """Fail at first, with a log; then print nothing until a file says so, and then something."""
    if ctx.attempt == 1:
        print("the first run had this to say")
        while not (Path(folder) / "fail").exists():
            time.sleep(0.02)
        raise RuntimeError("once more")
    while not (Path(folder) / "say").exists():
        time.sleep(0.02)
    print("the second run says this")
    while not (Path(folder) / "go").exists():
        time.sleep(0.02)


@app.job
def utter(folder: str, text: str) -> None:
    print(text)
    while not (Path(folder) / "go").exists():
        time.sleep(0.02)


@sharing.job(concurrency=20)
async def die(folder: str) -> None:
    """Take the whole process along."""
    print("its last words")
    while not (Path(folder) / "go").exists():
        await asyncio.sleep(0.02)
    os._exit(3)
