"""A worker that nobody calls any more stops its jobs: they may be another's."""

from __future__ import annotations

import signal
import time

import httpx
import pytest

from system.http_worker.conftest import StartWorker
from system.http_worker.fake_dispatcher import FakeDispatcher
from system.witness import runs_in
from system.yard import PATIENCE, Yard, until


def test_without_calls_all_jobs_are_stopped_in_time_and_it_registers_anew(
    dispatcher: FakeDispatcher, start_worker: StartWorker, yard: Yard
) -> None:
    worker = start_worker(dispatcher, slots=2)

    def seconds_until_stopped(number: int) -> list[float]:
        names = {f"{name}-{number}" for name in ("one", "two")}
        for name in names:
            until(lambda n=name: dispatcher.offer(n, "work", 1, 60.0).status_code == 202)
        until(lambda: names <= runs_in(yard.witness).keys())
        heard = time.monotonic()
        dispatcher.health_check(lease=2.0)

        line = until(lambda: worker.logged(action="self_destruct")[number:])[-1]

        until(lambda: len(dispatcher.registrations) >= 2 + number)
        assert names == set(line["jobs"])
        assert [dispatcher.look(name) for name in names] == [404, 404]
        runs = runs_in(yard.witness)
        return [run.last - heard for name in names for run in runs[name]]

    assert any(all(1.5 < end < 2.6 for end in seconds_until_stopped(n)) for n in range(4))
    assert dispatcher.reports == []
    until(lambda: dispatcher.offer("three", "add", 1, 2).status_code == 202)
    assert dispatcher.report_on("three")["result"] == 3


def test_calls_keep_the_jobs_running(
    dispatcher: FakeDispatcher, start_worker: StartWorker, yard: Yard
) -> None:
    worker = start_worker(dispatcher)
    dispatcher.offer("long", "work", 1, 4.0, lease=1.5)

    until(lambda: dispatcher.health_check(lease=1.5) and dispatcher.reports)

    assert dispatcher.report_on("long")["status"] == "c"
    assert worker.logged(action="self_destruct") == []


def test_without_a_promise_there_is_no_lease(
    dispatcher: FakeDispatcher, start_worker: StartWorker
) -> None:
    worker = start_worker(dispatcher)
    dispatcher.offer("long", "work", 1, 3.0, lease=None)

    assert dispatcher.report_on("long")["status"] == "c"
    assert worker.logged(action="self_destruct") == []


def test_a_call_that_promises_nothing_keeps_nothing(
    dispatcher: FakeDispatcher, start_worker: StartWorker
) -> None:
    """A probe of somebody else's must not keep the jobs of a worker that is cut off."""
    worker = start_worker(dispatcher)
    dispatcher.offer("long", "work", 1, 60.0, lease=1.0)

    until(lambda: dispatcher.health_check(lease=None) and worker.logged(action="self_destruct"))


def test_results_that_nobody_took_are_forgotten_with_the_lease(
    dispatcher: FakeDispatcher, start_worker: StartWorker
) -> None:
    worker = start_worker(dispatcher)
    dispatcher.will_answer(*[503] * 1000)
    dispatcher.offer("late", "add", 1, 2, lease=2.0)
    dispatcher.report_on("late")

    until(lambda: worker.logged(action="self_destruct"))

    assert dispatcher.look("late") == 404
    count = len(dispatcher.reports)
    assert worker.terminate() == 0
    assert len(dispatcher.reports) == count


@pytest.mark.parametrize("first", ["health_check", "offer"])
def test_a_worker_that_was_frozen_stops_its_jobs_before_it_listens(
    dispatcher: FakeDispatcher, start_worker: StartWorker, yard: Yard, first: str
) -> None:
    """What was sent to it meanwhile does not renew the lease, and starts nothing."""
    worker = start_worker(dispatcher)
    dispatcher.offer("old", "work", 1, 60.0, lease=1.0)
    until(lambda: "old" in runs_in(yard.witness))
    dispatcher.registration_answers.extend([503] * 3)
    worker.signal(signal.SIGSTOP)
    time.sleep(1.5)
    dispatcher.patience = 0.2
    calls = {
        "health_check": dispatcher.health_check,
        "offer": lambda: dispatcher.offer("stale", "work", 1, 60.0),
    }
    for call in (first, *calls):
        with pytest.raises(httpx.TimeoutException):
            calls[call]()

    worker.signal(signal.SIGCONT)

    until(lambda: worker.logged(action="self_destruct"))
    dispatcher.patience = PATIENCE
    until(lambda: dispatcher.offer("new", "add", 1, 2).status_code == 202)
    assert dispatcher.report_on("new")["result"] == 3
    assert "stale" not in runs_in(yard.witness)
