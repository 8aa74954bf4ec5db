"""Results that come by HTTP count once, for the run they are about."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from system.http.conftest import JOBS, Web, refused
from system.http_peers import ForeignWorker
from system.yard import Station, until


@pytest.fixture(scope="module")
def holder(station: Station) -> Iterator[ForeignWorker]:
    """A worker that takes jobs and never says a word about them."""
    worker = ForeignWorker(station, handlers=("held",), max_jobs=50, work=lambda job: None)
    worker.listen().register()
    yield worker
    worker.resign()
    worker.close()


@pytest.fixture
def running(web: Web, holder: ForeignWorker) -> Iterator[dict[str, Any]]:
    """A job that its worker is busy with."""
    job = web.when(web.submit("held")["id"], "i")
    yield job
    web.raw.delete(JOBS + job["id"])
    web.when(job["id"], "c", "f", "x")


def test_a_result_completes_the_job(web: Web, running: dict[str, Any]) -> None:
    answer = web.report(running, result={"by": {"$bytes": "AA=="}})

    assert answer.status_code == 200
    assert answer.json()["status"] == "c"
    assert answer.json()["result"] == {"by": {"$bytes": "AA=="}}
    assert web.job(running["id"]) == answer.json()


@pytest.mark.parametrize("error", ["broken", {"message": "broken", "kind": "exception"}])
def test_a_failure_fails_the_job(web: Web, running: dict[str, Any], error: Any) -> None:
    answer = web.report(running, status="failed", error=error)

    assert answer.status_code == 200
    assert answer.json()["status"] == "f"
    assert answer.json()["error"] == {"kind": "exception", "message": "broken"}


def test_a_failure_of_a_job_with_retries_queues_it_again(web: Web, holder: ForeignWorker) -> None:
    submitted = web.submit("held", retry={"limit": 1, "delay": 3600})
    job = web.when(submitted["id"], "i")

    answer = web.report(job, status="f", error="once more")

    assert answer.status_code == 200
    assert answer.json()["status"] == "q"
    assert answer.json()["history"][-1]["outcome"] == "retried"
    refused(web.report(job), 409, "not_in_progress", "status")
    web.raw.delete(JOBS + job["id"])


def test_a_stale_attempt_is_refused(web: Web, running: dict[str, Any]) -> None:
    stale = running["attempt"] - 1

    message = refused(web.report(running, attempt=stale), 409, "stale_attempt", "attempt")

    assert "drop the result" in message
    assert web.job(running["id"]) == running


def test_a_job_of_another_worker_is_refused(web: Web, running: dict[str, Any]) -> None:
    answer = web.report(running, worker_id="impostor")

    assert "impostor" in refused(answer, 409, "held_by_another", "worker_id")
    assert web.job(running["id"]) == running


def test_an_ended_job_stays_as_it_is(web: Web, running: dict[str, Any]) -> None:
    assert web.report(running, result=1).status_code == 200
    ended = web.job(running["id"])

    refused(web.report(running, result=2), 409, "job_final", "status")
    refused(web.report(running, status="f"), 409, "job_final", "status")

    assert web.job(running["id"]) == ended


def test_a_job_that_waits_is_nobodys_to_report_on(web: Web) -> None:
    job = web.submit("unserved")

    refused(web.report(job, worker_id="w"), 409, "not_in_progress", "status")


def test_an_unknown_job_is_not_found(web: Web) -> None:
    body = {"status": "c", "attempt": 1, "worker_id": "w"}

    refused(web.raw.post(f"{JOBS}unknown/result", json=body), 404, "not_found", "id")


def test_of_many_that_report_at_once_one_is_believed(web: Web, running: dict[str, Any]) -> None:
    answers: dict[int, int] = {}

    def report(number: int) -> None:
        answers[number] = web.report(running, result=number).status_code

    threads = [threading.Thread(target=report, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers.values()) == [200] + [409] * 7
    assert answers[web.job(running["id"])["result"]] == 200


def test_refused_reports_are_counted(web: Web, running: dict[str, Any]) -> None:
    before = web.station.counters().get("reports_refused", 0)

    web.report(running, attempt=99)

    until(lambda: web.station.counters().get("reports_refused", 0) > before)
