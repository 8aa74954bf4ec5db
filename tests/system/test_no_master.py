"""Two and three dispatchers over one store, one of them killed every second.

Workers are killed, replaced and frozen meanwhile. The witness is a file outside the store.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
import urllib.request

import pytest

from long_runs import IS_LONG
from shunter.model.job import Status
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, Station, Yard, until

LEASE = {
    "lease__heartbeat": 0.3,
    "lease__worker_gives_up": 2.0,
    "lease__kill_within": 0.5,
    "lease__dispatcher_takes_over": 3.0,
}


@pytest.fixture
def stations(yard: Yard, store_url: str) -> list[Station]:
    """Two on SQLite and three on MongoDB, where not all pairs are worth their time."""
    return dispatchers(yard, store_url, 2 if store_url.startswith("sqlite") else 3)


def dispatchers(yard: Yard, store_url: str, count: int) -> list[Station]:
    return [
        yard.dispatcher(f"dispatcher-{number}", store__url=store_url, **LEASE)
        for number in range(count)
    ]


class Killing:
    """Kills one dispatcher after the other, a second apart, and starts it again.

    Where the machine is so busy that a start takes long, all the others need longer too.
    """

    def __init__(self, stations: list[Station]) -> None:
        self.kills = 0
        self._stations = itertools.cycle(stations)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Killing:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        pause = 1.0
        while not self._over.wait(pause):
            killed_at = time.monotonic()
            next(self._stations).restart()
            self.kills += 1
            pause = max(1.0, 2 * (time.monotonic() - killed_at))


COUNT = 1000 if IS_LONG else 150
SECONDS = (12.0 if IS_LONG else 8.0) / COUNT
"""How long a job takes: all of them as long as a few kills."""


def test_hundreds_of_jobs_end_once_each_while_a_dispatcher_is_killed_every_second(
    yard: Yard, stations: list[Station]
) -> None:
    workers = [yard.worker(*stations) for _ in range(2)]
    client = yard.client(*stations)
    arguments = [(number, SECONDS) for number in range(COUNT)]
    with Killing(stations) as killing:
        jobs = client.submit_many("work", arguments[: COUNT // 2])
        until(lambda: len(runs_in(yard.witness)) >= COUNT // 3)
        workers[0].kill()
        yard.worker(*stations)
        until(lambda: killing.kills >= 2, within=2 * PATIENCE)
        jobs += client.submit_many("work", arguments[COUNT // 2 :])
        results = [job.result(2 * PATIENCE) for job in jobs]

    assert results == list(range(COUNT))
    assert overlaps(yard.witness) == []
    ended = [run for runs in runs_in(yard.witness).values() for run in runs if run.has_ended]
    assert {run.job_id for run in ended} == {job.id for job in jobs}
    assert client.standing().backlog == (("work", Status.COMPLETED, COUNT),)


def test_a_frozen_worker_wakes_up_and_its_late_results_are_refused(
    yard: Yard, stations: list[Station]
) -> None:
    """A frozen process can't stop its jobs, so here only the fence protects."""
    frozen = yard.worker(*stations, slots=1)
    client = yard.client(*stations)
    job = client.submit("attempt_of", 1.0)
    until(lambda: job.id in runs_in(yard.witness))

    frozen.signal(signal.SIGSTOP)
    other = yard.worker(*stations, slots=1)
    assert job.result(PATIENCE) == 2
    frozen.signal(signal.SIGCONT)

    other.terminate()
    again = client.submit("attempt_of", 0.1)
    again.result(PATIENCE)
    assert "w-" in (client.job(again.id).execution.worker_id or "")
    story = client.job(job.id)
    assert (story.status, story.attempt, story.losses) == (Status.COMPLETED, 2, 1)


def test_a_client_and_a_worker_move_to_another_dispatcher_within_three_seconds(
    yard: Yard, stations: list[Station]
) -> None:
    """Jobs that take longer than a moment leave one dispatcher all places of the worker."""
    seconds = 0.05 if len(stations) == 2 else 0.0
    yard.worker(*stations)
    client = yard.client(*stations)

    def seconds_for_a_job() -> float:
        begun = time.monotonic()
        assert client.submit("attempt_of", seconds).result(PATIENCE) == 1
        return time.monotonic() - begun

    def seconds_longer_without(station: Station) -> float:
        usually = max(seconds_for_a_job() for _ in range(5))
        station.process.kill()
        longer = seconds_for_a_job() - usually
        station.start()
        until(lambda: _has_a_worker(station))
        time.sleep(1.0)  # a few heartbeats, in which the worker gives it a part of its places
        return longer

    seconds_for_a_job()
    for station in stations:  # on a busy machine not each time
        assert any(seconds_longer_without(station) < 3.0 for _ in range(4))


def test_submissions_that_met_a_kill_are_repeated_and_stored_once(
    yard: Yard, stations: list[Station]
) -> None:
    yard.worker(*stations)
    client = yard.client(*stations)
    with Killing(stations) as killing:
        jobs = []
        while killing.kills < 2:
            jobs += client.submit_many("add", [(len(jobs), 1) for _ in range(20)])
            time.sleep(0.05)  # some meet a kill, and not all are worth their time
        results = [job.result(PATIENCE) for job in jobs]

    assert len({job.id for job in jobs}) == len(jobs)
    assert results == [(place // 20) * 20 + 1 for place in range(len(jobs))]
    assert client.standing().backlog == (("add", Status.COMPLETED, len(jobs)),)


def _has_a_worker(station: Station) -> bool:
    with urllib.request.urlopen(f"{station.url}/metrics", timeout=PATIENCE) as answer:
        return "shunter_workers_connected 1.0" in answer.read().decode()
