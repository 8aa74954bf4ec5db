"""The story of a job on a line of time."""

from __future__ import annotations

from typing import Any

from shunter.model.job import Execution, Job, PastAttempt, Status
from shunter.page.timeline import WIDTH, attempts, bars


def job(**fields: Any) -> Job:
    return Job(id="j", type="t", created=100.0, updated=100.0, **fields)


def test_a_job_in_the_queue_has_waited_all_its_life() -> None:
    waiting = job()
    assert attempts(waiting) == []
    [bar] = bars(waiting, [], now=110.0)
    assert (bar.kind, bar.x, bar.width) == ("waited", 0.0, WIDTH)


def test_each_run_follows_what_it_waited_for() -> None:
    ended = job(
        status=Status.COMPLETED,
        attempt=2,
        history=(PastAttempt(1, "w-1", 102.0, 104.0, "retried", "no"),),
        execution=Execution(worker_id="w-2", sent=106.0, started=107.0, ended=110.0),
    )
    rows = attempts(ended)
    assert [(row.number, row.outcome, row.ran) for row in rows] == [
        (1, "retried", "2.0 s"),
        (2, "completed", "3.0 s"),
    ]
    found = [(bar.kind, bar.row, bar.x) for bar in bars(ended, rows, now=999.0)]
    assert found == [
        ("waited", 0, 0.0),
        ("failed", 0, 200.0),
        ("waited", 1, 400.0),
        ("sent", 1, 600.0),
        ("completed", 1, 700.0),
    ]


def test_a_running_job_grows_to_now() -> None:
    running = job(
        status=Status.IN_PROGRESS, attempt=1, execution=Execution(worker_id="w", sent=100.0)
    )
    rows = attempts(running)
    assert rows[0].ended is None
    [bar] = bars(running, rows, now=150.0)
    assert (bar.kind, bar.width) == ("running", WIDTH)


def test_clocks_that_went_back_draw_nothing_outside() -> None:
    odd = job(
        status=Status.FAILED,
        attempt=1,
        execution=Execution(worker_id="w", sent=90.0, started=80.0, ended=70.0),
    )
    for bar in bars(odd, attempts(odd), now=60.0):
        assert 0 <= bar.x <= WIDTH
        assert bar.width >= 0
