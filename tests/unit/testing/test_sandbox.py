"""shunter.testing: the whole engine in one object."""

from __future__ import annotations

import asyncio

import pytest

from shunter import App, Context, JobCancelled, JobFailed, JobRefused, ResultTimeout, Status
from shunter.model.job import Callback
from shunter.testing import Sandbox

app = App()


@app.job
def add(x: int, y: int) -> int:
    return x + y


@app.job(retries=2)
def third_time_lucky(ctx: Context) -> int:
    print("attempt", ctx.attempt)
    if ctx.attempt < 3:
        raise ValueError("not yet")
    return ctx.attempt


@app.job
async def slowly(x: int) -> int:
    await asyncio.sleep(0)
    return x


@app.job
def halfway(ctx: Context) -> None:
    ctx.progress(1, 2)


def test_a_job_runs_without_a_process() -> None:
    with Sandbox(app) as sandbox:
        assert sandbox.submit(add, 1, 2).result() == 3
        assert sandbox.submit("slowly", x=4).result() == 4


def test_retries_take_virtual_time_only() -> None:
    with Sandbox(app) as sandbox:
        started = sandbox.clock()
        job = sandbox.submit(third_time_lucky)
        with pytest.raises(ResultTimeout):
            job.result()

        sandbox.settle()

        assert job.result() == 3
        assert sandbox.clock() > started + 2.0
        assert job.record.log == "attempt 3\n"


def test_a_delayed_job_starts_when_its_time_has_come() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.with_options(delay=60).submit(add, 1, 1)

        sandbox.advance(59)
        assert job.status is Status.QUEUED
        sandbox.advance(1)
        assert job.result() == 2


def test_a_job_survives_the_death_of_its_process_but_not_of_many() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(add, 1, 1)
        sandbox.crash_next()
        assert job.result() == 2

        sandbox.crash_next(99)
        doomed = sandbox.submit(add, 1, 1)
        sandbox.settle()
        with pytest.raises(JobFailed, match="max_losses"):
            doomed.result()


def test_bad_arguments_are_refused_with_the_parameter_named() -> None:
    with Sandbox(app) as sandbox, pytest.raises(JobFailed, match="parameter 'y'"):
        sandbox.submit(add, 1, "two").result()


def test_a_unique_key_gives_the_same_job_back_or_refuses_another_payload() -> None:
    with Sandbox(app) as sandbox:
        once = sandbox.with_options(unique_key="k")
        first = once.submit(add, 1, 1)

        assert once.submit(add, 1, 1).id == first.id
        with pytest.raises(JobRefused, match="unique_key"):
            once.submit(add, 2, 2)


def test_a_cancelled_job_says_so() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.with_options(delay=5).submit(add, 1, 1)
        job.cancel()

        with pytest.raises(JobCancelled):
            job.result()


def test_progress_is_recorded() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(halfway)
        job.result()

        assert job.status is Status.COMPLETED


def test_callbacks_are_taken_note_of_and_nobody_is_called() -> None:
    url = "http://127.0.0.1:1/done"
    with Sandbox(app) as sandbox:
        job = sandbox.with_options(callback=url).submit(add, 1, 1)
        assert sandbox.callbacks == []

        sandbox.settle()

        assert sandbox.callbacks == [(url, job.id)]
        assert job.record.callback == Callback(url, delivered=True, tries=1)
        with pytest.raises(JobRefused, match=r"callbacks\.allowed_hosts"):
            sandbox.with_options(callback="http://example.com/").submit(add, 1, 1)
