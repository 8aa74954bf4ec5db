"""Handlers that behave, and handlers that don't; loaded by path into the children of a pool."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from shunter.app import App, Context
from shunter.model.retry import Retry

app = App()


@app.job
def noop() -> None:
    return None


@app.job
def add(x: int, y: int = 1) -> int:
    return x + y


@app.job
async def add_later(x: int, y: int) -> int:
    await asyncio.sleep(0.001)
    return x + y


@app.job
def who(ctx: Context) -> tuple[str, str, int, int]:
    return ctx.job_id, ctx.run_id, ctx.attempt, os.getpid()


@app.job
def echo(data: bytes) -> bytes:
    return data


@app.job(retry=Retry(limit=3))
def fail(text: str) -> None:
    raise ValueError(text)


@app.job
def fail_unprintably() -> None:
    class Weird(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    raise Weird


@app.job
def leave_by(code: int, *, how: str) -> None:
    if how == "sys.exit":
        sys.exit(code)
    os._exit(code)


@app.job
async def leave_async(code: int) -> None:
    sys.exit(code)


@app.job
def out_of_memory() -> None:
    raise MemoryError


@app.job
def segfault() -> None:
    ctypes.string_at(0)


@app.job
def give_object() -> object:
    return object()


@app.job
def say(text: str) -> str:
    print(text)
    print("no newline", end="")
    logging.getLogger("pool").info("logged")
    subprocess.run(["echo", "from a subprocess"], check=True)
    return text


@app.job
def flood(megabytes: int) -> None:
    line = "x" * 1023
    print("the beginning")
    for _ in range(megabytes * 1024):
        print(line)
    print("the end")


@app.job
def say_and_die(text: str) -> None:
    print(text)
    os.kill(os.getpid(), 9)


@app.job
def nap(seconds: float) -> str:
    time.sleep(seconds)
    return "rested"


@app.job(timeout=0.2)
def nap_limited(seconds: float) -> str:
    time.sleep(seconds)
    return "rested"


@app.job
def polite(ctx: Context, marker: str) -> str:
    Path(marker).touch()
    while not ctx.cancelled():
        time.sleep(0.005)
    return "stopped by itself"


@app.job
def rest(marker: str) -> str:
    """Say that the run has begun, and end when there is a second file."""
    Path(marker).touch()
    while not Path(marker + ".enough").exists():
        time.sleep(0.005)
    return "rested"


@app.job
def polite_raising(ctx: Context, marker: str) -> str:
    Path(marker).touch()
    while not ctx.cancelled():
        time.sleep(0.005)
    raise InterruptedError("stopping as asked")


@app.job
def deaf(marker: str) -> None:
    Path(marker).touch()
    try:
        time.sleep(60)
    finally:
        Path(marker + ".cleaned").touch()


@app.job
def stubborn(marker: str) -> None:
    Path(marker).touch()
    print("you won't stop me", flush=True)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


@app.job
async def patient(marker: str) -> None:
    Path(marker).touch()
    try:
        await asyncio.sleep(60)
    finally:
        Path(marker + ".cleaned").touch()


@app.job
async def deaf_async(marker: str) -> None:
    Path(marker).touch()
    try:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue
    finally:
        Path(marker + ".cleaned").touch()


@app.job
async def blocking_async(marker: str) -> None:
    Path(marker).touch()
    time.sleep(60)


@app.job
def start_child_and_hang(marker: str) -> None:
    process = subprocess.Popen(["sleep", "60"])
    Path(marker + ".tmp").write_text(str(process.pid))
    os.rename(marker + ".tmp", marker)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


@app.job
def fork_and_wait(marker: str) -> None:
    """Leave it to SIGTERM to end the handler; the twin hears nothing of it."""
    if (twin := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _tell(marker, twin)
    time.sleep(60)


@app.job
def fork_far_and_wait(marker: str) -> None:
    """Have a grandchild whose parent has gone."""
    if (twin := os.fork()) == 0:
        if (grandchild := os.fork()) == 0:
            time.sleep(60)
        else:
            _tell(marker, grandchild)
        os._exit(0)
    os.waitpid(twin, 0)
    time.sleep(60)


@app.job
def multiprocess_and_wait(marker: str) -> None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    _tell(marker, process.pid)
    process.join()


@app.job
async def fork_in_async_and_wait(marker: str) -> None:
    if (twin := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _tell(marker, twin)
    await asyncio.sleep(60)


def _tell(marker: str, pid: int | None) -> None:
    Path(marker + ".tmp").write_text(str(pid))
    os.rename(marker + ".tmp", marker)


@app.job
def fork_and_return(how: str) -> tuple[int, int]:
    """Return the child's id and the twin's exit code; the twin leaves the handler as well."""
    pid = os.getpid()
    twin = ctypes.CDLL(None).fork() if how == "in C" else os.fork()
    if twin == 0:
        if how == "raise":
            raise ValueError("from the twin")
        if how == "sys.exit":
            sys.exit(7)
        return os.getpid(), -1
    return pid, os.waitstatus_to_exitcode(os.waitpid(twin, 0)[1])


@app.job
def fork_and_leave(marker: str) -> None:
    """Complete, and leave a twin behind."""
    if (twin := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _tell(marker, twin)


@app.job
def keep_the_lock(marker: str) -> None:
    """Sleep in C without letting any other thread run, deaf to all that can be heard."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    Path(marker).touch()
    ctypes.PyDLL(None).sleep(60)


@app.job
def report_progress(ctx: Context, steps: int, gate: str = "") -> None:
    """Report at once, and end when there is a file of that name."""
    for step in range(steps):
        ctx.progress(step + 1, steps)
    while gate and not Path(gate).exists():
        time.sleep(0.005)


HOARD: list[bytes] = []


@app.job
def hoard(megabytes: int) -> int:
    HOARD.append(b"x" * (megabytes << 20))
    return os.getpid()
