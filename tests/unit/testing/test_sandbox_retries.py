"""Which errors are tried again, as a sandbox shows it."""

from __future__ import annotations

import asyncio

import pytest

from shunter import App, Context, Fail, JobFailed, JobRefused, Retry, Snooze, Status
from shunter.errors import AppError
from shunter.testing import Sandbox

app = App()
policy = Retry(limit=3, on=(OSError,), never=(PermissionError,), on_timeout=True)


@app.job(retry=policy, timeout=5.0)
async def raises(ctx: Context, what: str) -> int:
    if ctx.attempt == 1:
        match what:
            case "hopeless":
                raise Fail("no such customer")
            case "asleep":
                await asyncio.sleep(60)
        raise {"disk": OSError, "rights": PermissionError, "value": ValueError}[what](what)
    return ctx.attempt


@app.job(retries=1)
def later(ctx: Context) -> int:
    if ctx.attempt < 4:
        print("attempt", ctx.attempt)
        raise Snooze(100)
    return ctx.attempt


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("disk", Status.COMPLETED),
        ("asleep", Status.COMPLETED),
        ("rights", Status.FAILED),
        ("value", Status.FAILED),
        ("hopeless", Status.FAILED),
    ],
)
def test_only_errors_that_the_policy_covers_are_tried_again(what: str, status: Status) -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.submit(raises, what=what)
        sandbox.settle()

        assert job.status is status


def test_a_jobs_own_classes_go_before_the_handlers_and_its_limit_leaves_them() -> None:
    with Sandbox(app) as sandbox:
        own = sandbox.with_options(retry=Retry(limit=1, on=(ValueError,))).submit(raises, "value")
        limit = sandbox.with_options(retry=Retry(limit=9)).submit(raises, "value")
        sandbox.settle()

        assert (own.status, limit.status) == (Status.COMPLETED, Status.FAILED)


def test_fail_shows_the_reason_alone() -> None:
    with (
        Sandbox(app) as sandbox,
        pytest.raises(JobFailed, match="no such customer") as raised,
    ):
        sandbox.submit(raises, "hopeless").result()

    assert raised.value.kind == "exception"


def test_a_job_that_snoozes_runs_again_when_it_said_and_uses_up_no_retry() -> None:
    with Sandbox(app) as sandbox:
        started = sandbox.clock()
        job = sandbox.submit(later)
        sandbox.settle()

        assert job.result() == 4
        assert sandbox.clock() - started == 300
        assert (job.record.failures, job.record.snoozes) == (0, 3)


def test_a_policy_that_can_t_be_is_refused_with_the_handlers_line() -> None:
    with pytest.raises(AppError, match=r"handler 'f' \(.*retries.py:\d+\): retry.on: "):

        @app.job(retry=Retry(on=("x" * 200,)))
        def f() -> None: ...


@app.job(effects="at_most_once")
def pay() -> str:
    return "paid"


def test_a_job_that_bears_no_second_run_ends_as_lost() -> None:
    with Sandbox(app) as sandbox:
        sandbox.crash_next()
        job = sandbox.submit("pay")
        sandbox.settle()

        with pytest.raises(JobFailed, match="may have had its effect") as raised:
            job.result()
        assert (raised.value.kind, job.record.attempt) == ("lost", 1)


def test_a_client_may_say_for_one_job_what_it_bears() -> None:
    with Sandbox(app) as sandbox:
        sandbox.crash_next()
        bearable = sandbox.with_options(effects="at_least_once").submit(pay)
        sandbox.settle()

        assert bearable.result() == "paid"


def test_effects_are_refused_at_once_where_they_can_t_be() -> None:
    with pytest.raises(AppError, match=r"effects: found 'once'; send at_least_once or at_most"):
        app.job(name="once", effects="once")(len)
    with pytest.raises(AppError, match=r"retry.on_timeout: found beside effects at_most_once"):
        app.job(name="both", effects="at_most_once", retry=policy)(len)
    with Sandbox(app) as sandbox, pytest.raises(JobRefused, match="effects: found 'never'"):
        sandbox.with_options(effects="never").submit(pay)
