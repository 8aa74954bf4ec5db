"""Several dispatchers over one store, and HTTP workers that all of them call."""

from __future__ import annotations

import time
from typing import Any

from system.calls import calls
from system.http_peers import JOBS, ForeignWorker
from system.yard import PATIENCE, QUICK_LEASE, Station, Yard, until


def dispatchers(yard: Yard, store_url: str, count: int, **settings: Any) -> list[Station]:
    return [
        yard.dispatcher(f"dispatcher-{number}", store__url=store_url, **settings)
        for number in range(count)
    ]


def submitted(station: Station, job_type: str, *args: Any, **fields: Any) -> str:
    url = f"http://127.0.0.1:{station.http_port}{JOBS}"
    body = {"type": job_type, "payload": list(args), **fields}
    answer = calls.post(url, json=body, timeout=PATIENCE)
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["id"])


def job(station: Station, job_id: str) -> dict[str, Any]:
    url = f"http://127.0.0.1:{station.http_port}{JOBS}{job_id}"
    return dict(calls.get(url, timeout=PATIENCE).json())


def test_three_dispatchers_ask_no_more_often_than_one(yard: Yard, store_url: str) -> None:
    stations = dispatchers(yard, store_url, 3, dispatcher__workers__ping_interval=2000)
    worker = ForeignWorker(*stations).listen()
    worker.register()
    until(lambda: (worker.shown(1) or {}).get("state") == "alive")

    until(lambda: len(worker.asked("GET", "/health_check/")) >= 4)

    # Two intervals of 2 s, the first of which may begin late; each for itself, three ask in 1.3 s.
    _, second, *_, last = worker.asked("GET", "/health_check/")[:4]
    assert last - second > 2.4
    worker.close()


def test_no_worker_is_overfilled_and_each_job_is_done_while_dispatchers_are_killed(
    yard: Yard, store_url: str
) -> None:
    stations = dispatchers(
        yard,
        store_url,
        3,
        dispatcher__jobs__job_verification_interval=1000,
        dispatcher__workers__ping_interval=1000,
    )
    workers = []
    for size in (1, 3):
        worker = ForeignWorker(*stations, max_jobs=size).listen()
        worker.work = lambda job: time.sleep(0.02) or sum(job["payload"])
        worker.register(at=size % 3)
        workers.append(worker)

    ids = []
    for number in range(45):
        ids.append(submitted(stations[number % 3], "add", number, 1, id=f"add-{number}"))
        if number in (15, 30):
            stations[number // 15].restart()
    done = [
        until(lambda job_id=job_id: (it := job(stations[0], job_id))["status"] == "c" and it)
        for job_id in ids
    ]

    assert [it["result"] for it in done] == [number + 1 for number in range(45)]
    assert [worker.peak <= worker.max_jobs for worker in workers] == [True, True]
    counted = [job_id for worker in workers for job_id, status in worker.reports if status == 200]
    assert sorted(counted) == sorted(ids)
    for worker in workers:
        worker.close()


def test_a_cancel_reaches_a_worker_that_another_dispatcher_leads(
    yard: Yard, store_url: str
) -> None:
    settings = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
    here, there = dispatchers(yard, store_url, 2, **settings)
    yard.worker(here, slots=1)

    def seconds_until_cancelled() -> float:
        job_id = submitted(there, "attempt_of", 2 * PATIENCE)
        until(lambda: job(there, job_id)["status"] == "i")

        asked_at = time.monotonic()
        url = f"http://127.0.0.1:{there.http_port}{JOBS}{job_id}"
        assert calls.delete(url, timeout=PATIENCE).status_code == 202
        until(lambda: job(there, job_id)["status"] == "x")

        return time.monotonic() - asked_at

    assert any(seconds_until_cancelled() < 3.0 for _ in range(5))  # on a busy machine not each time
