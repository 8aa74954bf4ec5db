"""Handlers with steps that tell a witness, a file outside the store, what they do."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from shunter import App, Context

app = App()
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_witness = os.open(os.environ["SHUNTER_WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def done(what: str, context: Context) -> str:
    """The body of a step: have an effect that is not Shunter's."""
    os.write(_witness, f"{what} {context.job_id} {context.attempt}\n".encode())
    return f"{what} by {context.attempt}"


def is_first(context: Context) -> bool:
    """True once for each job. Attempts may skip 1: a job is given back before it has begun."""
    try:
        os.close(os.open(f"{os.environ['SHUNTER_WITNESS']}-{context.job_id}", NEW, 0o600))
    except FileExistsError:
        return False
    return True


@app.job
def three(context: Context, kill_after: float, is_early: bool) -> list[str]:
    """Three steps; the first run is killed inside the third, before or behind its effect."""

    def third() -> str:
        dies = is_first(context)
        results = [] if is_early and dies else [done("third", context)]
        if dies:
            time.sleep(kill_after)
            os.kill(os.getpid(), signal.SIGKILL)
        return results[0]

    first = context.step("first", lambda: done("first", context))
    second = context.step("second", lambda: done("second", context))
    return [first, second, context.step("third", third)]


@app.job(name="three-async")
async def three_async(context: Context, kill_after: float, is_early: bool) -> list[str]:
    """The same as a coroutine, two steps at a time."""

    async def step(name: str) -> str:
        await asyncio.sleep(0.01)
        return done(name, context)

    both = await asyncio.gather(
        context.step("first", step, "first"), context.step("second", step, "second")
    )

    async def third() -> str:
        dies = is_first(context)
        results = [] if is_early and dies else [await step("third")]
        if dies:
            await asyncio.sleep(kill_after)
            os.kill(os.getpid(), signal.SIGKILL)
        return results[0]

    return [*both, await context.step("third", third)]


@app.job(concurrency=4)
def beside(context: Context, number: int) -> str:
    """A plain function in a thread, beside others."""
    return str(context.step("only", lambda: f"{number}"))


@app.job
def stopped(context: Context) -> str:
    """A step that is done while its worker is stopped past its lease."""
    return str(context.step("slow", lambda: slow(context)))


def slow(context: Context) -> str:
    done("begins", context)
    deadline = time.monotonic() + (6.0 if context.attempt == 1 else 0.0)
    while time.monotonic() < deadline:
        time.sleep(0.05)
    return done("slow", context)


@app.job
def story(context: Context, words: int) -> int:
    """A stream, of which the first run emits a half and dies."""
    for number in range(words):
        context.emit(f"{context.attempt}:{number}")
        if context.attempt == 1 and number == words // 2:
            context.step("synced", lambda: None)
            os.kill(os.getpid(), signal.SIGKILL)
    return words


@app.job
def nap(context: Context, seconds: float, extra: bool = False) -> list[str]:
    """Steps around a sleep; with `extra` there is one more before it, as after a deployment."""
    first = context.step("first", lambda: done("first", context))
    context.emit("slept")
    context.sleep("rest", seconds)
    context.emit("woke")
    return [first, context.step("second", lambda: done("second", context))]


@app.job
async def approval(context: Context, timeout: float | None = None) -> object:
    """Wait for somebody."""
    return await context.wait("approved", timeout=timeout)


@app.job(name="page")
def page(number: int) -> int:
    return number * number


@app.job
def book(context: Context, pages: int) -> int:
    """Wait for other jobs."""
    return sum(context.gather("pages", [("page", number) for number in range(pages)]))
