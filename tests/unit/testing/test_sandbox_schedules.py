"""Schedules in a sandbox: an app's own, a client's, and clients that handlers open."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from shunter import App, Client, Context, Cron, Every, ScheduleNotFound, ScheduleRefused
from shunter.aes_codec import AesCodec
from shunter.errors import AppError
from shunter.model.job import Status
from shunter.testing import Sandbox


def test_jobs_of_a_declared_schedule_come_as_time_passes() -> None:
    app, seen = App(), list[float | None]()

    @app.job(schedule=Cron("0 8 * * 1-5", tz="Europe/Berlin"))
    def report(context: Context) -> None:
        seen.append(context.scheduled)

    with Sandbox(app) as sandbox:
        sandbox.advance(7 * 86400)

    at = [datetime.fromtimestamp(it or 0, UTC) for it in seen]
    assert len(at) == 5
    assert {(it.hour, it.minute) for it in at} == {(7, 0)}
    assert {it.weekday() for it in at} == {0, 1, 2, 3, 4}


def test_a_job_that_nobody_scheduled_has_no_tick() -> None:
    app = App()

    @app.job
    def tick(context: Context) -> float | None:
        return context.scheduled

    with Sandbox(app) as sandbox:
        assert sandbox.submit(tick).result() is None


def test_a_schedule_is_put_changed_and_removed() -> None:
    app, seen = App(), list[int]()

    @app.job
    def note(number: int, factor: int = 1) -> int:
        seen.append(number * factor)
        return number * factor

    with Sandbox(app) as sandbox:
        schedules = sandbox.schedules
        schedules.put("notes", note, [3], {"factor": 2}, schedule=Every(60))
        sandbox.advance(120)
        assert seen == [6, 6]
        assert schedules.put("notes", "note", [5], schedule=Every(60)).next is not None
        sandbox.advance(60)
        assert seen == [6, 6, 5]
        assert schedules.pause("notes").is_paused
        sandbox.advance(600)
        assert len(seen) == 3
        assert not schedules.resume("notes").is_paused
        sandbox.advance(60)
        assert len(seen) == 4
        assert schedules.trigger("notes").result() == 5
        now = sandbox.clock()
        assert len(schedules.backfill("notes", now - 600, now)) == 10
        assert [it.name for it in schedules.list()] == ["notes"]
        assert schedules.get("notes").job.type == "note"
        for moment in ("2026-03-01", None, datetime(2026, 3, 1)):
            with pytest.raises(ScheduleRefused, match="schedule 'notes': begin: found"):
                schedules.backfill("notes", moment, now)  # type: ignore[arg-type]
        schedules.remove("notes")
        sandbox.advance(600)
        assert schedules.list() == []
        for act in (schedules.get, schedules.remove, schedules.trigger, schedules.pause):
            with pytest.raises(ScheduleNotFound, match="schedule 'notes'"):
                act("notes")


def test_a_slow_job_is_overlapped_as_its_schedule_has_it() -> None:
    app, runs = App(), list[float]()

    @app.job(schedule=Every(10), overlap="skip")
    def slow(context: Context) -> None:
        import time

        runs.append(context.scheduled or 0.0)
        time.sleep(25)

    with Sandbox(app) as sandbox:
        sandbox.advance(100)

    gaps = {later - run for run, later in pairwise(runs)}
    assert len(runs) >= 3
    assert min(gaps) >= 20


def test_options_of_the_client_are_those_of_the_jobs() -> None:
    app = App()

    @app.job
    def add(a: int) -> int:
        return a

    with Sandbox(app) as sandbox:
        put = sandbox.with_options(priority=7, timeout=5.0).schedules.put
        put("adds", add, [1], schedule=Every(60))
        job = sandbox.schedules.trigger("adds").record
        assert (job.priority, job.execution.timeout) == (7, 5.0)
        with pytest.raises(ScheduleRefused, match="delay"):
            sandbox.with_options(delay=5).schedules.put("adds", add, [1], schedule=Every(60))


def test_arguments_are_encrypted_and_schedules_declared_where_the_app_has_a_codec() -> None:
    app, seen = App(codec=AesCodec({"k1": bytes(32)})), list[str]()

    @app.job(schedule=Every(60))
    def beat() -> None:
        seen.append("beat")

    @app.job
    def note(text: str) -> None:
        seen.append(text)

    with Sandbox(app) as sandbox:
        sandbox.schedules.put("notes", note, ["secret words"], schedule=Every(60))
        sandbox.advance(60)
        assert sorted(seen) == ["beat", "secret words"]
        for name in ("beat", "notes"):
            job = sandbox.schedules.trigger(name).record
            assert b"secret" not in (job.payload or b"")


def test_a_handler_may_put_a_schedule() -> None:
    app, seen = App(), list[int]()

    @app.job
    def begin() -> None:
        with Client("tcp://nowhere:1") as client:
            client.schedules.put("notes", note, [1], schedule=Every(60))

    @app.job
    def note(number: int) -> None:
        seen.append(number)

    with Sandbox(app) as sandbox:
        sandbox.submit(begin).result()
        sandbox.advance(180)

    assert seen == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schedule": Cron("61 * * * *")}, ["cron.text", "five fields"]),
        ({"schedule": Cron("0 8 * * *", tz="Europe/Berln")}, ["cron.tz", "tz database"]),
        ({"schedule": Every(0)}, ["every.seconds", "1 to"]),
        ({"schedule": "0 8 * * *"}, ["schedule", "Cron(...)"]),
        ({"schedule": Every(5), "overlap": "some"}, ["overlap", "skip, one, all, cancel"]),
        ({"schedule": Every(5), "jitter": -1}, ["jitter", "0 to"]),
        ({"overlap": "one"}, ["belong to a schedule"]),
    ],
)
def test_a_wrong_declaration_names_the_handler_and_its_line(options, words) -> None:  # type: ignore[no-untyped-def]
    app = App()
    with pytest.raises(AppError) as refused:

        @app.job(**options)
        def report() -> None: ...

    assert "handler 'report' (" in str(refused.value)
    assert "test_sandbox_schedules.py:" in str(refused.value)
    assert all(word in str(refused.value) for word in words)
    assert app.handlers() == ()


def test_a_handler_that_needs_arguments_can_declare_no_schedule() -> None:
    app = App()
    with pytest.raises(AppError, match="number would be missing"):

        @app.job(schedule=Every(5))
        def report(number: int, context: Context, factor: int = 1) -> None: ...


def test_a_job_that_fails_and_is_retried_keeps_its_tick() -> None:
    app, seen = App(), list[float | None]()

    @app.job(schedule=Every(3600), retries=2)
    def flaky(context: Context) -> None:
        seen.append(context.scheduled)
        raise ValueError("again")

    with Sandbox(app) as sandbox:
        sandbox.advance(3600)
        sandbox.schedules.pause("flaky")
        sandbox.settle()
        (job,) = sandbox.store._jobs.values()

    assert job.status is Status.FAILED
    assert len(seen) == 3
    assert len(set(seen)) == 1
