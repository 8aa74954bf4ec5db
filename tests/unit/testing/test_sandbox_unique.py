"""Unique keys with a rule, as a sandbox shows them."""

from __future__ import annotations

import pytest

from shunter import AesCodec, App, JobRefused, Status, Unique
from shunter.errors import AppError
from shunter.testing import Sandbox

app = App()
ran: list[str] = []


@app.job
def index(document: str) -> str:
    ran.append(document)
    return document


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


def test_a_debounced_job_runs_once_when_it_has_been_quiet_for_a_while() -> None:
    with Sandbox(app) as sandbox:
        debounced = sandbox.with_options(unique=Unique("d-5", then="postpone"), delay=10)
        jobs = []
        for _ in range(5):
            jobs.append(debounced.submit(index, "five"))
            sandbox.advance(6)
        assert ran == []

        sandbox.advance(4)

        assert ran == ["five"]
        assert len({job.id for job in jobs}) == 1
        debounced.submit(index, "five")
        sandbox.settle()
        assert ran == ["five", "five"]


def test_a_waiting_job_is_replaced_and_runs_with_the_last_arguments() -> None:
    with Sandbox(app) as sandbox:
        latest = sandbox.with_options(unique=Unique("doc", then="replace"), delay=10)
        first, second = latest.submit(index, "draft"), latest.submit(index, "final")
        sandbox.settle()

        assert first.id == second.id
        assert ran == ["final"]
        assert first.result() == "final"


def test_a_replacement_that_need_not_wait_is_run_at_once() -> None:
    with Sandbox(app) as sandbox:
        rule = Unique("doc", then="replace")
        first = sandbox.with_options(unique=rule, delay=1000).submit(index, "draft")
        sandbox.with_options(unique=rule).submit(index, "final")

        assert first.result() == "final"


def test_a_key_is_free_again_when_its_job_has_ended_or_its_time_is_over() -> None:
    with Sandbox(app) as sandbox:
        once = sandbox.with_options(unique=Unique("a", during="running"))
        hourly = sandbox.with_options(unique=Unique("b", within=3600))
        for _ in range(3):
            once.submit(index, "once")
            hourly.submit(index, "hourly")
            sandbox.run()
        assert ran == ["once", "hourly", "once", "once"]

        sandbox.advance(3600)
        hourly.submit(index, "hourly").result()

        assert ran.count("hourly") == 2


def test_a_rule_that_can_t_be_is_refused_at_once() -> None:
    with Sandbox(app) as sandbox:
        with pytest.raises(
            AppError, match=r"unique.during: found 'always'; send queued or running"
        ):
            sandbox.with_options(unique=Unique("k", during="always"))
        postponed = sandbox.with_options(unique=Unique("k", then="postpone"))
        with pytest.raises(JobRefused, match="postpone without delay or not_before"):
            postponed.submit(index, "x")


def test_sealed_arguments_can_be_postponed_and_not_replaced() -> None:
    sealed = App(codec=AesCodec({"k1": bytes(32)}, current="k1"))
    sealed.job(name="index")(index.function)
    with Sandbox(sealed) as sandbox:
        with pytest.raises(JobRefused, match="sealed for one job alone"):
            sandbox.with_options(unique=Unique("k", then="replace")).submit("index", "x")
        postponed = sandbox.with_options(unique=Unique("k", then="postpone"), delay=5)
        first, second = postponed.submit("index", "x"), postponed.submit("index", "x")
        assert first.id == second.id
        assert first.status is Status.QUEUED
