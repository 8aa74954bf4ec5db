"""A peer that poses as a worker says how the runs of that worker ended: nobody believes it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from shunter.client import Client
from shunter.model.job import Status
from shunter.model.report import Advance, Held, Report
from shunter.wire.messages import Advances, Kind, Reports, Returned
from system.full_peers import FullPeers
from system.http_peers import JOBS, ForeignWorker
from system.yard import PATIENCE, Station, Yard, until

GUESSED = b"\0" * 16


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    return shared_yard.dispatcher()


@pytest.fixture
def client(station: Station) -> Iterator[Client]:
    with Client(station.frontend, timeout=PATIENCE) as client:
        yield client


def test_who_poses_as_a_worker_can_not_speak_of_its_runs(station: Station, client: Client) -> None:
    peers = FullPeers(station.backend)
    real = peers.worker("w-real").introduces_itself("precious", max_jobs=2)
    mine = peers.worker("w-mine").introduces_itself("cheap")
    bait, job = client.submit("cheap", 1), client.submit("precious", 1)
    [given], [own] = real.takes_jobs(), mine.takes_jobs()
    run = Held(job.id, given.attempt)
    forged = Report(run.job_id, run.attempt, result=b"\x00")
    posing = peers.worker("w-real", name=b"forger")

    posing.introduces_itself("precious", max_jobs=2, held=(run,))
    guesses = (b"", GUESSED, mine.secrets[bait.id, own.attempt])
    for batch, secret in enumerate(guesses, 1):
        posing.tell(Kind.RESULTS, Reports(batch, 1, (forged,), (secret,)))
        posing.hears_kind(Kind.TAKEN)
    posing.tell(Kind.RETURN, Returned(1, (run,), "take it", (GUESSED,)))
    advance = Advance(run.job_id, run.attempt, 99.0, 100.0)
    posing.tell(Kind.PROGRESS, Advances((advance,), (GUESSED,)))
    until(lambda: client.standing().counters.get("refused_RunNotProven") == len(guesses) + 2)

    after = client.job(job.id)
    assert (after.status, after.attempt) == (Status.IN_PROGRESS, given.attempt)
    assert after.progress is None
    [logged] = station.process.logged(reason="RunNotProven")
    assert job.id in logged["detail"]

    real.beats(run)
    assert "READY" in real.is_refused()
    real.introduces_itself("precious", max_jobs=2, held=(run,))
    real.reports(Report(run.job_id, run.attempt, result=b"\x2a"))
    assert job.result(PATIENCE) == 42
    peers.close()


def test_over_http_a_wrong_secret_is_refused_like_a_stale_attempt(
    station: Station, client: Client
) -> None:
    worker = ForeignWorker(station, handlers=("guarded",), work=lambda job: None).listen()
    worker.register()
    job = client.submit("guarded", 1)
    given = until(lambda: worker.running.get(job.id))
    report = {"status": "c", "attempt": given["attempt"], "worker_id": worker.id, "result": 0}

    with httpx.Client(base_url=station.url, trust_env=False, timeout=PATIENCE) as web:
        shown = web.get(JOBS + job.id).json()
        answer = web.post(f"{JOBS}{job.id}/result", json={**report, "secret": "0" * 32})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "stale_attempt")
        assert "secret" not in shown
        assert web.get(JOBS + job.id).json() == shown
        true = {**report, "secret": given["secret"], "result": 42}
        assert web.post(f"{JOBS}{job.id}/result", json=true).status_code == 200

    assert job.result(PATIENCE) == 42
    worker.close()
