"""Our worker behind HTTP and real dispatchers: nothing else between them."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from system.calls import calls
from system.http_worker.conftest import StartWorker, worker_in
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, Station, Yard, until

JOBS = "/dispatcher/jobs/"
WORKERS = "/dispatcher/workers/"


class Asking:
    """A client that knows only HTTP."""

    def __init__(self, station: Station) -> None:
        self._base = f"http://127.0.0.1:{station.http_port}"

    def ask(self, method: str, path: str, **how: Any) -> Any:
        answer = calls.request(method, self._base + path, timeout=PATIENCE, **how)
        assert answer.is_success, answer.text
        return answer.json()

    def submit(self, job_type: str, *args: Any, **fields: Any) -> str:
        body = {"type": job_type, "payload": list(args), **fields}
        return str(self.ask("POST", JOBS, json=body)["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", JOBS + job_id)
        return found

    def ended(self, job_id: str) -> dict[str, Any]:
        return until(lambda: (job := self.job(job_id))["status"] in "cfx" and job, what=job_id)

    def alive(self) -> list[dict[str, Any]]:
        return [it for it in self.ask("GET", WORKERS)["workers"] if it["state"] == "alive"]


def http_url(station: Station) -> str:
    return f"http://127.0.0.1:{station.http_port}"


@pytest.fixture(scope="module")
def asking(shared_yard: Yard) -> Asking:
    station = shared_yard.dispatcher(zmq__enabled=False)
    worker_in(shared_yard)(http_url(station), slots=2)
    client = Asking(station)
    until(client.alive)
    return client


def test_a_job_is_done_without_a_single_zeromq_socket(asking: Asking) -> None:
    done = asking.ended(asking.submit("add", 20, 22))

    assert (done["status"], done["result"]) == ("c", 42)
    assert done["execution"]["worker_id"] == asking.alive()[0]["id"]


def test_bytes_failures_and_time_outs_are_told(asking: Asking) -> None:
    tagged = {"$bytes": "AP8="}

    assert asking.ended(asking.submit("echo", tagged))["result"] == tagged
    failed = asking.ended(asking.submit("fail", "boom"))
    assert failed["error"]["message"] == "ValueError: boom"
    assert "witness_app.py" in failed["error"]["traceback"]
    slow = asking.ended(asking.submit("polite", execution={"timeout": 200}))
    assert (slow["status"], slow["error"]["kind"]) == ("f", "timeout")


def test_a_cancel_reaches_a_running_job(asking: Asking, shared_yard: Yard) -> None:
    job_id = asking.submit("polite")
    until(lambda: job_id in runs_in(shared_yard.witness))

    asking.ask("DELETE", JOBS + job_id)

    assert asking.ended(job_id)["status"] == "x"


def test_many_jobs_pass_through_few_slots(asking: Asking, shared_yard: Yard) -> None:
    ids = [asking.submit("work", number, 0.01) for number in range(40)]

    assert [asking.ended(job_id)["result"] for job_id in ids] == list(range(40))
    assert all(len(runs_in(shared_yard.witness)[job_id]) == 1 for job_id in ids)


def test_a_dispatcher_that_is_killed_costs_a_running_job_nothing(
    yard: Yard, start_worker: StartWorker
) -> None:
    station = yard.dispatcher(zmq__enabled=False)
    start_worker(http_url(station))
    asking = Asking(station)
    until(asking.alive)
    job_id = asking.submit("work", 7, 2.0)
    until(lambda: job_id in runs_in(yard.witness))

    station.restart()

    assert asking.ended(job_id)["result"] == 7
    assert len(runs_in(yard.witness)[job_id]) == 1


def test_a_worker_that_leaves_hands_its_job_to_another_and_they_never_overlap(
    yard: Yard, start_worker: StartWorker
) -> None:
    station = yard.dispatcher(zmq__enabled=False)
    asking = Asking(station)
    workers = [start_worker(http_url(station), worker__grace_seconds=0.3) for _ in range(2)]
    until(lambda: len(asking.alive()) == 2)
    places = {worker["id"]: worker["port"] for worker in asking.alive()}
    job_id = asking.submit("work", 7, 3.0)
    until(lambda: job_id in runs_in(yard.witness))
    port = places[asking.job(job_id)["execution"]["worker_id"]]
    (leaving,) = (it for it in workers if it.logged(action="start", port=port))

    leaving.signal(signal.SIGTERM)

    assert leaving.exit_code() == 0
    done = asking.ended(job_id)
    assert (done["status"], done["result"], done["losses"]) == ("c", 7, 0)
    assert len(runs_in(yard.witness)[job_id]) == 2
    assert overlaps(yard.witness) == []
