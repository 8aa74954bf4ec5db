"""Messages of the right shape with absurd values in them: refused, or harmless."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from shunter.client import Client
from shunter.model.job import ErrorKind, Failure, Status
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry
from shunter.wire.messages import Advances, Assignment, Kind
from system.full_peers import FullPeers
from system.plain_peers import PlainPeers
from system.yard import PATIENCE, Station, Yard, until

LIMIT = 1024 * 1024


@pytest.fixture
def station(yard: Yard) -> Station:
    """A dispatcher and a store for each test: what is written here may have to be read for ever."""
    return yard.dispatcher(zmq__max_message_bytes=LIMIT)


@pytest.fixture
def client(station: Station) -> Iterator[Client]:
    """A good client; after each test it is served as before, also by a new process."""
    with Client(station.frontend, timeout=10.0) as good:
        yield good
        assert good.standing().backlog is not None
    station.restart()
    with Client(station.frontend, timeout=10.0) as good:
        assert good.jobs() is not None
        assert good.workers() is not None


@pytest.mark.parametrize(
    "advance",
    [(math.nan, None), (math.inf, 1.0), (1.0, math.nan), (1e308, -1e308)],
    ids=str,
)
def test_progress_that_is_no_number_does_no_harm(
    full: FullPeers, client: Client, advance: tuple[float, float | None]
) -> None:
    worker = full.worker("progress").introduces_itself("progress")
    job = client.submit("progress", 1)
    given = _own(worker.takes_jobs(), job.id)

    said = Advance(job.id, given.attempt, *advance)
    worker.tell(Kind.PROGRESS, Advances((said,), worker.shows(said)))
    worker.beats(Held(job.id, given.attempt))
    worker.hears_kind(Kind.PONG)
    assert client.job(job.id).status is Status.IN_PROGRESS
    worker.reports(Report(job.id, given.attempt, result=b"\x07"))

    assert job.result(PATIENCE) == 7
    assert client.jobs(job_ids=(job.id,))


@pytest.mark.parametrize(
    "retry",
    [
        Retry(limit=3, delay=math.nan),
        Retry(limit=3, delay=0.01, factor=1e300, max_delay=0.01),
        Retry(limit=3, delay=-5.0),
        Retry(limit=3, delay=0.01, jitter=math.inf),
    ],
    ids=["nan", "factor", "negative", "jitter"],
)
def test_an_absurd_retry_policy_of_a_worker_does_no_harm(
    full: FullPeers, client: Client, retry: Retry
) -> None:
    worker = full.worker("absurd").introduces_itself("absurd")
    job = client.submit("absurd", 1)
    error = Failure(ErrorKind.EXCEPTION, "no luck")

    for _ in range(4):
        given = _own(worker.takes_jobs(), job.id)
        worker.reports(Report(job.id, given.attempt, error=error, retry=retry))
        until(lambda given=given: _moved_on(client, job.id, given.attempt))
        if client.job(job.id).status.is_final:
            break

    assert job.wait(PATIENCE).status is Status.FAILED


def test_a_result_that_is_no_msgpack_fails_its_job_with_that_reason(
    full: FullPeers, plain: PlainPeers, client: Client
) -> None:
    worker = full.worker("garbler").introduces_itself("default")
    asker = plain.client()
    asker.say(b"a plain job")
    [given] = worker.takes_jobs()

    worker.reports(Report(given.job_id, given.attempt, result=b"\xc1\xff"))

    word, reason = asker.hears()
    assert word == b"ERROR"
    assert b"msgpack" in reason


def _own(given: tuple[Assignment, ...], job_id: str) -> Assignment:
    [job] = given
    assert job.job_id == job_id
    return job


def _moved_on(client: Client, job_id: str, attempt: int) -> bool:
    job = client.job(job_id)
    return job.status is not Status.IN_PROGRESS or job.attempt > attempt
