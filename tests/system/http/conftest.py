"""Fixtures of the tests over HTTP: a dispatcher with a worker, and somebody who asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from system.yard import PATIENCE, Station, Yard, until

LIMIT = 4 * 1024 * 1024
JOBS = "/dispatcher/jobs/"


class Web:
    """A client that knows only HTTP."""

    def __init__(self, station: Station) -> None:
        self.station = station
        self.raw = httpx.Client(
            base_url=f"http://127.0.0.1:{station.http_port}", timeout=PATIENCE, trust_env=False
        )

    def submit(self, job_type: str, *args: Any, status: int = 201, **fields: Any) -> dict[str, Any]:
        answer = self.raw.post(JOBS, json={"type": job_type, "payload": list(args), **fields})
        assert answer.status_code == status, answer.text
        return answer.json()

    def job(self, job_id: str) -> dict[str, Any]:
        answer = self.raw.get(JOBS + job_id)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def when(self, job_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until the job has one of these statuses, and return it."""
        return until(
            lambda: (job := self.job(job_id))["status"] in statuses and job,
            what=f"{job_id} in {statuses}",
        )

    def report(self, job: dict[str, Any], **changes: Any) -> httpx.Response:
        """Report on the job's current run, as its worker would."""
        body = {
            "status": "c",
            "attempt": job["attempt"],
            "worker_id": job["execution"]["worker_id"] or "nobody",
            **changes,
        }
        return self.raw.post(f"{JOBS}{job['id']}/result", json=body)


def refused(answer: httpx.Response, status: int, code: str, field: str | None = None) -> str:
    """Check that an answer is an error as errors are, and return its message."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert list(document) == ["error"]
    error = document["error"]
    assert list(error) == ["code", "message", "field"]
    assert (error["code"], error["field"]) == (code, field), error
    assert error["message"]
    return str(error["message"])


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    made = shared_yard.dispatcher(zmq__max_message_bytes=LIMIT)
    shared_yard.worker(made, slots=2)
    return made


@pytest.fixture(scope="module")
def web(station: Station) -> Iterator[Web]:
    asking = Web(station)
    with asking.raw:
        yield asking
        assert station.process.is_alive
        assert asking.submit("add", 20, 22)["status"] in "qdic"
