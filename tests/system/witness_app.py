"""Handlers that tell a witness, a file outside the store, when they run.

A line is: what happened, job, attempt, process, time on the clock that all processes share. A
run that is killed leaves no end, so long runs tick: the last tick is how long they surely lived.
"""

from __future__ import annotations

import os
import signal
import time

from shunter import App, Context
from shunter.app import Retry

app = App()
_witness = os.open(os.environ["SHUNTER_WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def tell(what: str, context: Context) -> None:
    words = (what, context.job_id, context.attempt, os.getpid(), time.monotonic())
    os.write(_witness, (" ".join(map(str, words)) + "\n").encode())


@app.job
def work(number: int, seconds: float, context: Context) -> int:
    """Be busy for a while, and say so all the time."""
    tell("start", context)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(0.02, left))
        tell("tick", context)
    tell("end", context)
    return number


@app.job
def attempt_of(
    seconds: float, context: Context, ballast: bytes = b"", later: float | None = None
) -> int:
    """Be busy, in later attempts perhaps for another while, and return which attempt this was."""
    tell("start", context)
    is_first = context.attempt == 1 or later is None
    end = time.monotonic() + (seconds if is_first else later)
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(0.02, left))
        tell("tick", context)
    tell("end", context)
    return context.attempt


@app.job
def held(number: int, gate: str, context: Context) -> int:
    """Be busy until there is a file of that name."""
    tell("start", context)
    while not os.path.exists(gate):
        time.sleep(0.02)
    tell("end", context)
    return number


@app.job
def die(context: Context) -> None:
    tell("start", context)
    os.kill(os.getpid(), signal.SIGKILL)


@app.job
def die_once(context: Context) -> int:
    tell("start", context)
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return context.attempt


@app.job
def add(left: int, right: int) -> int:
    return left + right


@app.job
def echo(value: object) -> object:
    return value


@app.job
def blob(megabytes: float) -> bytes:
    return b"\0\xff" * int(megabytes * 512 * 1024)


@app.job
def size_of(value: bytes) -> int:
    return len(value)


@app.job
def fail(message: str) -> None:
    raise ValueError(message)


@app.job
def fail_at_length() -> None:
    """Fail with a message that no packet holds."""
    raise ValueError("\u044f" * 5000)


@app.job(retry=Retry(limit=5, delay=0.1, factor=2.0, jitter=0.0))
def fail_until(attempt: int, context: Context) -> int:
    """Fail until the given attempt."""
    tell("start", context)
    print("this is attempt", context.attempt)
    if context.attempt < attempt:
        raise ValueError(f"attempt {context.attempt} fails")
    return context.attempt


@app.job
def stubborn(context: Context) -> None:
    """Ignore a request to stop."""
    tell("start", context)
    while True:
        try:
            while True:
                time.sleep(0.05)
        except BaseException:
            tell("ignored", context)


@app.job
def polite(context: Context) -> None:
    """Stop when asked to."""
    tell("start", context)
    while not context.cancelled():
        time.sleep(0.01)
    raise RuntimeError("stopped as asked")


@app.job
def advancing(steps: int, context: Context) -> int:
    """Show progress, then wait to be cancelled."""
    tell("start", context)
    for done in range(1, steps + 1):
        context.progress(done, steps)
    while not context.cancelled():
        time.sleep(0.01)
    return steps


@app.job
def hog(seconds: float, context: Context) -> int:
    """Take all of a processor for a while."""
    tell("start", context)
    end, turns = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turns += 1
    return turns
