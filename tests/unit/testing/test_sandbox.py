"""shunter.testing: the whole engine in one object."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from shunter import (
    App,
    Client,
    Context,
    JobCancelled,
    JobFailed,
    JobRefused,
    NotPlaced,
    ResultTimeout,
    Status,
)
from shunter.app import payload_of
from shunter.errors import AppError
from shunter.model.job import Callback
from shunter.model.submission import Submission
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


@app.job
def sleepy(seconds: float) -> str:
    time.sleep(seconds)
    return "rested"


@app.job
async def sleepy_later(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@app.job
def logs() -> None:
    print("printed")
    logging.getLogger("app").warning("logged")


@app.job
def orders(x: int) -> int:
    with Client("tcp://192.0.2.1:5560") as client:
        return int(client.submit(add, x, 1).result()) * 10


@pytest.mark.parametrize("handler", [sleepy, sleepy_later])
def test_a_handler_that_sleeps_takes_virtual_time(handler: Any) -> None:
    with Sandbox(app) as sandbox:
        began, began_really = sandbox.clock(), time.monotonic()

        assert sandbox.submit(handler, 3600.0).result() == "rested"

        assert sandbox.clock() - began == pytest.approx(3600.0)
        assert time.monotonic() - began_really < 60.0


@pytest.mark.parametrize(("handler", "ended_by"), [(sleepy, "SIGTERM"), (sleepy_later, "request")])
def test_a_handler_is_ended_at_its_time_out(handler: Any, ended_by: str) -> None:
    with Sandbox(app) as sandbox:
        began = sandbox.clock()
        job = sandbox.with_options(timeout=5.0).submit(handler, 3600.0)
        with pytest.raises(JobFailed, match="time-out of 5 s"):
            job.result()

        assert sandbox.clock() - began == pytest.approx(5.0)
        assert job.record.error is not None
        assert job.record.error.ended_by == ended_by


def test_what_a_handler_prints_and_logs_is_kept() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(logs)
        job.result()

        assert job.log == "printed\nWARNING:app:logged\n"


def test_several_jobs_are_submitted_together() -> None:
    with Sandbox(app) as sandbox:
        jobs = sandbox.submit_many(add, [(1, 2), {"x": 3, "y": 4}])

        assert [job.result() for job in jobs] == [3, 7]


def test_a_client_inside_a_handler_reaches_the_sandbox() -> None:
    with Sandbox(app) as sandbox:
        assert sandbox.submit(orders, 4).result() == 50


def test_a_job_that_no_worker_takes_in_time_is_given_up() -> None:
    with Sandbox(app) as sandbox:
        submission = Submission("j-1", "nobody-does-this", payload_of(), place_within=5.0)
        sandbox.dispatcher.submit([submission], lambda receipts: None)

        sandbox.advance(6.0)

        assert sandbox.job("j-1").status is Status.FAILED


def test_a_job_that_expires_is_given_up_in_time_and_not_before() -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.with_options(expires_in=5.0).submit("nobody-does-this")
        taken = sandbox.with_options(expires_in=5.0, delay=60).submit(add, 1, 2)
        sandbox.advance(4.0)
        assert job.status is Status.QUEUED

        sandbox.advance(2.0)

        with pytest.raises(NotPlaced, match="no worker took it within 5 s"):
            job.result()
        sandbox.settle()
        assert taken.result() == 3


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), 1e12])
def test_an_expiry_that_can_t_be_is_refused_at_once(seconds: float) -> None:
    with Sandbox(app) as sandbox, pytest.raises(AppError, match=r"expires_in: found .*; give sec"):
        sandbox.with_options(expires_in=seconds)


class Account:
    """Two ways to pay; only one of them bears a run that begins again."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.app = App()

        @self.app.job
        def careless(name: str) -> None:
            self.paid.append(name)
            name.upper()

        @self.app.job
        def careful(name: str) -> None:
            if name not in self.paid:
                self.paid.append(name)
            name.upper()


@pytest.mark.parametrize(("handler", "is_sound"), [("careless", False), ("careful", True)])
def test_deaths_at_every_point_show_which_handler_may_run_again(
    handler: str, is_sound: bool
) -> None:
    def holds(seed: int) -> bool:
        account = Account()
        with Sandbox(account.app, faults=seed) as sandbox:
            jobs = [sandbox.submit(handler, name) for name in ("a", "b")]
            sandbox.settle()
            assert {job.status for job in jobs} == {Status.COMPLETED}
        return sorted(account.paid) == ["a", "b"]

    assert all(holds(seed) for seed in range(40)) is is_sound


def test_the_same_seed_gives_the_same_deaths() -> None:
    def story(seed: int) -> list[str]:
        with Sandbox(Account().app, faults=seed) as sandbox:
            job = sandbox.submit("careful", "a")
            sandbox.settle()
            return [past.message for past in job.record.history]

    assert story(3) == story(3)
    assert len({tuple(story(seed)) for seed in range(30)}) > 3


def test_an_ended_job_is_done_again_as_a_new_one() -> None:
    with Sandbox(app) as sandbox:
        first = sandbox.submit(add, 1, 2)
        with pytest.raises(JobRefused, match=r"rerun_of: job .* is in progress"):
            sandbox.rerun(first.id)
        first.result()

        again = sandbox.rerun(first.id)
        edited = sandbox.rerun(first.id, args=[5], kwargs={"y": 6}, new_id="mine")

        assert (again.result(), edited.result()) == (3, 11)
        assert again.id != first.id
        assert (again.record.rerun_of, edited.id) == (first.id, "mine")
        assert sandbox.rerun(first.id, args=[5], kwargs={"y": 6}, new_id="mine").id == "mine"


def test_a_client_inside_a_handler_reruns_jobs() -> None:
    inner = App()

    @inner.job
    def one(x: int) -> int:
        return x

    @inner.job
    def again(job_id: str) -> list[int]:
        with Client() as client:
            jobs = [client.rerun(job_id), *client.rerun_many([job_id, job_id], args=[8])]
            return [job.result() for job in jobs]

    with Sandbox(inner) as sandbox:
        first = sandbox.submit(one, 4)
        first.result()
        assert sandbox.submit(again, first.id).result() == [4, 8, 8]


def test_a_paused_type_waits_until_it_is_resumed() -> None:
    versioned = App(version="1.2")

    @versioned.job
    def one() -> int:
        return 1

    with Sandbox(versioned) as sandbox:
        sandbox.pause(one)
        job = sandbox.submit(one)
        sandbox.advance(10)
        assert job.status is Status.QUEUED
        sandbox.resume("one")
        assert job.result() == 1
        assert job.record.version == "1.2"


def test_jobs_that_would_share_a_process_run_one_after_the_other() -> None:
    app = App()

    @app.job(concurrency=50, timeout=10)
    async def nap(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @app.job(concurrency=5)
    def doze(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    with Sandbox(app) as sandbox:
        jobs = [*sandbox.submit_many(nap, [1.0, 2.0]), sandbox.submit(doze, 3.0)]
        late = sandbox.submit(nap, 60.0)
        sandbox.settle()

        assert [job.result() for job in jobs] == [1.0, 2.0, 3.0]
        for job in jobs:
            run = job.record.execution
            assert run.started is not None
            assert run.ended is not None
            assert run.ended - run.started == pytest.approx(job.result())
        assert late.status is Status.FAILED
