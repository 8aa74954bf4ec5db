"""Dispatchers whose clocks differ or jump, and one that its store leaves waiting.

Nothing dies here, so nothing may be lost, timed out or run twice. The witness is a file outside
the store. Whose clock counts is decided above the store, so MongoDB is for SHUNTER_LONG=1; every
day the conformance tests show that it keeps the times that it is given.
"""

from __future__ import annotations

import time

import pytest

from long_runs import IS_LONG
from shunter.testing.mongod import LocalMongod
from system.relay import Relay
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, Station, Yard, until

LEASE = {
    "lease__heartbeat": 0.3,
    "lease__worker_gives_up": 3.0,  # a busy machine may stand still for a while
    "lease__kill_within": 0.5,
    "lease__dispatcher_takes_over": 4.0,
}
CUTS = 2 if IS_LONG else 1
JOBS = 150 * CUTS
on_stores = pytest.mark.parametrize(
    "store_url", ["sqlite", "mongodb"] if IS_LONG else ["sqlite"], indirect=True
)
BLAMED = ("jobs_lost", "jobs_expired", "workers_died")


def blamed(*stations: Station) -> dict[str, int]:
    """Return what went wrong, by the dispatchers' own counters."""
    counted = [station.counters() for station in stations]
    return {name: n for name in BLAMED if (n := sum(it.get(name, 0) for it in counted))}


@on_stores
def test_clocks_that_differ_by_half_a_minute_harm_no_job(yard: Yard, store_url: str) -> None:
    stations = [
        yard.dispatcher("right", store__url=store_url, **LEASE),
        yard.dispatcher("ahead", store__url=store_url, clock_ahead=30.0, **LEASE),
        yard.dispatcher("behind", store__url=store_url, clock_ahead=-30.0, **LEASE),
    ]
    for _ in range(2):
        yard.worker(*stations)
    clients = [yard.client(station) for station in stations]
    jobs = [
        job
        for client in clients
        for job in client.with_options(timeout=10.0).submit_many(
            "work", [(n, 0.1) for n in range(20)]
        )
    ]
    slow = [client.with_options(timeout=20.0).submit("work", 0, 5.0) for client in clients]

    results = [job.result(PATIENCE) for job in (*jobs, *slow)]

    assert results == [*range(20), *range(20), *range(20), 0, 0, 0]
    assert {len(runs) for runs in runs_in(yard.witness).values()} == {1}
    assert blamed(*stations) == {}


@on_stores
def test_a_clock_that_jumps_by_an_hour_moves_nothing(yard: Yard, store_url: str) -> None:
    one = yard.dispatcher("one", store__url=store_url, clock_ahead=0.0, **LEASE)
    two = yard.dispatcher("two", store__url=store_url, **LEASE)
    for _ in range(2):
        yard.worker(one, two)
    client = yard.client(one, two)
    jobs = client.with_options(timeout=10.0).submit_many("work", [(n, 0.05) for n in range(60)])
    until(lambda: len(runs_in(yard.witness)) >= 10)

    one.set_clock(ahead=3600.0)
    delayed = client.with_options(delay=1.0).submit("work", 7, 0.0)
    submitted_at = time.monotonic()
    assert delayed.result(PATIENCE) == 7
    one.set_clock(ahead=-3600.0)

    assert [job.result(PATIENCE) for job in jobs] == list(range(60))
    assert time.monotonic() - submitted_at < PATIENCE
    assert overlaps(yard.witness) == []
    assert blamed(one, two) == {}
    until(lambda: one.process.logged(action="clock"), what="it says that its clock was set")


def test_a_dispatcher_that_is_cut_off_from_the_store_decides_nothing_on_old_news(
    yard: Yard, mongod: LocalMongod
) -> None:
    url = mongod.url(f"t{time.monotonic_ns()}")
    cable = Relay(url)
    there = url.partition("://")[2].partition("/")[0]
    via = url.replace(there, cable.address.removeprefix("tcp://")).partition("?")[0]
    one = yard.dispatcher("one", store__url=f"{via}?directConnection=true", **LEASE)
    two = yard.dispatcher("two", store__url=url, **LEASE)
    for _ in range(2):
        yard.worker(one, two)
    client = yard.client(two)
    jobs = client.submit_many("work", [(n, 0.2) for n in range(JOBS)])
    until(lambda: len(runs_in(yard.witness)) >= 8)

    for _ in range(CUTS):
        cable.cut()
        time.sleep(5.0)  # workers say READY on new sockets meanwhile, and nobody reads it
        cable.mend()
        seen = len(runs_in(yard.witness))
        until(lambda seen=seen: len(runs_in(yard.witness)) >= seen + 8)

    assert [job.result(PATIENCE) for job in jobs] == list(range(JOBS))
    cable.close()
    twice = {name: runs for name, runs in runs_in(yard.witness).items() if len(runs) > 1}
    assert twice == {}, [client.job(name).history for name in twice]
