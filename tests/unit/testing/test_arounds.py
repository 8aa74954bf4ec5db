"""What an app does around its handlers, and when a job has failed for good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from shunter import App, Context, Fail, JobFailed, Retry, Snooze, Status
from shunter.errors import AppError
from shunter.testing import Sandbox


class Ledger:
    def __init__(self) -> None:
        self.entries: list[Any] = []


LEDGER = Ledger()
app = App()


@app.setup
def ledger() -> Iterator[Ledger]:
    LEDGER.entries.clear()
    yield LEDGER


@app.around
def outer(ctx: Context, book: Ledger) -> Generator[None, Any, None]:
    book.entries.append(f"outer before {ctx.job_type}")
    try:
        result = yield
    except BaseException as error:
        book.entries.append(f"outer saw {type(error).__name__}")
        raise
    book.entries.append(f"outer got {result}")


@app.around
async def inner(book: Ledger) -> AsyncIterator[None]:
    async with asyncio.timeout(None):  # to be left by the task that entered it
        book.entries.append("inner before")
        await asyncio.sleep(0)
        try:
            yield
        except LookupError:
            book.entries.append("inner swallows")
        except PermissionError:
            raise Snooze(5) from None
        else:
            await asyncio.sleep(0)
            book.entries.append("inner after")


@app.on_final_failure
def note(ctx: Context, error: BaseException, book: Ledger) -> None:
    book.entries.append(f"final {ctx.job_type} {ctx.attempt} {type(error).__name__}")
    raise RuntimeError("of no consequence")


@app.on_final_failure
async def note_later(book: Ledger) -> None:
    await asyncio.sleep(0)
    book.entries.append("final, too")


@app.job
def plain(x: int) -> int:
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
    LEDGER.entries.append("plain runs")
    return x


@app.job
async def waiting(x: int) -> int:
    await asyncio.sleep(1)
    LEDGER.entries.append("waiting runs")
    return x


@app.job(retry=Retry(limit=2, never=(TypeError,)), timeout=10)
def raises(ctx: Context, what: str) -> None:
    if what == "snooze" and ctx.attempt == 1:
        raise PermissionError
    if what == "sleep":
        import time

        time.sleep(60)
    if what == "snooze":
        return
    raise {"value": ValueError, "type": TypeError, "fail": Fail, "lookup": KeyError}[what](what)


@pytest.mark.parametrize("handler", ["plain", "waiting"])
def test_each_call_goes_through_all_arounds_the_first_outermost(handler: str) -> None:
    with Sandbox(app) as sandbox:
        assert sandbox.submit(handler, 4).result() == 4

    assert LEDGER.entries == [
        f"outer before {handler}",
        "inner before",
        f"{handler} runs",
        "inner after",
        "outer got 4",
    ]


def test_an_around_can_t_make_a_failure_a_success() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(raises, "lookup")
        sandbox.run()

        assert LEDGER.entries[-2:] == ["inner swallows", "outer saw KeyError"]
        assert job.record.error is not None
        assert job.record.error.message.startswith("KeyError")


def test_an_around_may_raise_in_the_place_of_what_the_handler_raised() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(raises, "snooze")
        sandbox.settle()

        assert (job.status, job.record.snoozes) == (Status.COMPLETED, 1)


@pytest.mark.parametrize(
    ("what", "attempts"), [("value", 3), ("type", 1), ("fail", 1), ("lookup", 3)]
)
def test_the_last_failure_is_told_once(what: str, attempts: int) -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(raises, what)
        sandbox.settle()

        told = [entry for entry in LEDGER.entries if str(entry).startswith("final")]
        name = {"value": "ValueError", "type": "TypeError", "fail": "Fail", "lookup": "KeyError"}
        assert told == [f"final raises {attempts} {name[what]}", "final, too"]
        assert "of no consequence" in job.log
        assert job.status is Status.FAILED


def test_a_time_out_is_told_if_it_is_final() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(raises, "sleep")
        sandbox.settle()

        assert LEDGER.entries[-2:] == ["final raises 1 JobFailed", "final, too"]
        assert "of no consequence" not in job.log
        often = sandbox.with_options(retry=Retry(limit=1, on_timeout=True))
        again = often.submit(raises, "sleep")
        sandbox.settle()

        assert again.record.attempt == 2
        assert LEDGER.entries.count("final raises 2 JobFailed") == 1
        assert LEDGER.entries.count("final raises 1 JobFailed") == 1


def test_a_loss_is_told_if_it_is_the_last() -> None:
    with Sandbox(app) as sandbox:
        sandbox.submit(plain, 1)
        sandbox.crash_next(5)
        sandbox.settle()

        assert LEDGER.entries == ["final plain 5 JobFailed", "final, too"]


def test_a_loss_that_bears_no_second_run_is_told_at_once() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.with_options(effects="at_most_once").submit(plain, 1)
        sandbox.crash_next()
        sandbox.run()

        assert LEDGER.entries == ["final plain 1 JobFailed", "final, too"]
        assert job.record.hook_job is not None
        call = sandbox.job(job.record.hook_job)
        assert "of no consequence" in sandbox.opened(call).log
        assert (call.status, call.attempt) == (Status.FAILED, 1)


def test_what_nobody_took_in_time_is_told_though_its_type_is_paused() -> None:
    with Sandbox(app) as sandbox:
        sandbox.pause(plain)
        sandbox.with_options(expires_in=5).submit(plain, 1)
        sandbox.advance(6)

        assert LEDGER.entries == ["final plain 0 NotPlaced", "final, too"]


def test_a_cancelled_parent_and_what_waits_for_it_are_not_told() -> None:
    with Sandbox(app) as sandbox:
        with sandbox.workflow("w") as run:
            first = run.with_options(delay=60).job(plain, 1)
            run.job(plain, 2, after=first)
        sandbox.cancel(first.id)
        sandbox.settle()

        assert LEDGER.entries == []


def test_a_hook_that_sleeps_too_long_is_ended() -> None:
    slow = App()
    slow.job(name="plain", timeout=1)(lambda: time.sleep(60))
    slow.on_final_failure(lambda: time.sleep(90))
    with Sandbox(slow) as sandbox:
        job = sandbox.submit("plain")
        sandbox.settle()

        call = sandbox.job(job.record.hook_job or "")
        assert call.error is not None
        assert call.error.kind == "timeout"


def test_arguments_that_don_t_fit_are_a_final_failure_too() -> None:
    with Sandbox(app) as sandbox:
        with pytest.raises(JobFailed):
            sandbox.submit(plain, "four").result()

        assert LEDGER.entries == ["final plain 1 AppError", "final, too"]


@pytest.mark.parametrize("how", ["cancel", "loss", "completion"])
def test_other_ends_are_not_told(how: str) -> None:
    with Sandbox(app) as sandbox:
        match how:
            case "cancel":
                sandbox.submit(raises, "value").cancel()
            case "loss":
                sandbox.crash_next(4)
                sandbox.submit(plain, 1)
            case _:
                sandbox.submit(plain, 1)
        sandbox.settle()

        assert not [entry for entry in LEDGER.entries if str(entry).startswith("final")]


def no_yield() -> None: ...


def unknown(x: int) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("function", "reason"),
    [(no_yield, "it does not yield"), (unknown, "its parameter 'x' can't be filled in")],
)
def test_an_around_that_can_t_be_is_refused_with_its_line(
    function: Callable[..., Any], reason: str
) -> None:
    with pytest.raises(
        AppError, match=rf"around '{function.__name__}' \(test_arounds.py:\d+\): {reason}"
    ):
        App().around(function)


def test_a_hook_that_wants_what_nobody_has_is_refused() -> None:
    with pytest.raises(AppError, match=r"on_final_failure 'unknown' \(test_arounds.py:\d+\): its"):
        App().on_final_failure(unknown)


def twice() -> Iterator[None]:
    yield
    yield


def never() -> Iterator[None]:
    if LEDGER is None:
        yield


@pytest.mark.parametrize(("function", "reason"), [(twice, "twice"), (never, "before it yielded")])
def test_an_around_that_does_not_yield_once_fails_the_run(
    function: Callable[..., Any], reason: str
) -> None:
    other = App()
    other.around(function)

    @other.job
    def nothing() -> None: ...

    with Sandbox(other) as sandbox, pytest.raises(JobFailed, match=reason):
        sandbox.submit(nothing).result()
