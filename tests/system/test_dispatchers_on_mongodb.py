"""Dispatchers without a master over a real MongoDB, with real kills."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from long_runs import IS_LONG
from shunter.testing.mongod import LocalMongod
from system.receiver import Receiver
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, QUICK_LEASE, Station, Yard, until


def station(yard: Yard, mongod: LocalMongod, name: str, **extra: Any) -> Station:
    settings = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
    url = mongod.url(f"t{abs(hash(str(yard.folder))) % 10**9}")
    return yard.dispatcher(name, store__url=url, **settings, **extra)


@pytest.mark.skipif(not IS_LONG, reason="make soak; every day it is shown by test_no_master.py")
def test_one_of_two_dispatchers_is_killed_and_every_job_ends_once(
    yard: Yard, mongod: LocalMongod
) -> None:
    one, two = station(yard, mongod, "one"), station(yard, mongod, "two")
    yard.worker(one, two)
    yard.worker(one, two)
    client = yard.client(one, two)
    jobs = client.submit_many("work", [(n, 0.02) for n in range(120)])
    until(lambda: len(runs_in(yard.witness)) >= 30)

    one.process.kill()

    ended = list(client.as_completed(jobs, timeout=PATIENCE))
    assert sorted(job.result() for job in ended) == list(range(120))
    assert overlaps(yard.witness) == []


def test_a_step_down_and_a_restart_of_the_server_are_ridden_out(
    yard: Yard, mongod: LocalMongod
) -> None:
    one = station(yard, mongod, "one")
    yard.worker(one)
    client = yard.client(one)
    jobs = client.submit_many("work", [(n, 0.02) for n in range(100)])
    until(lambda: len(runs_in(yard.witness)) >= 20)

    mongod.step_down()
    until(lambda: len(runs_in(yard.witness)) >= 50)
    mongod.restart()

    ended = list(client.as_completed(jobs, timeout=PATIENCE))
    assert sorted(job.result() for job in ended) == list(range(100))
    assert one.process.is_alive


def test_a_dispatcher_hears_at_once_of_a_job_that_another_accepted(
    yard: Yard, mongod: LocalMongod
) -> None:
    one, two = station(yard, mongod, "one"), station(yard, mongod, "two")
    yard.worker(two)
    client = yard.client(one)
    until(lambda: len(client.workers()) == 1)

    def seconds_until_started() -> Iterator[float]:
        for number in range(9):
            submitted = time.time()
            job = client.submit("work", number, 0.0)
            record = until(lambda job=job: _started(client, job.id))
            yield record - submitted

    # The sweep alone would take half a second; a busy machine may be late in some of the rounds.
    assert any(statistics.median(seconds_until_started()) < 0.25 for _ in range(8))


def _started(client: object, job_id: str) -> float | None:
    return client.job(job_id).execution.started  # type: ignore[attr-defined, no-any-return]


def test_callbacks_are_made_once_between_two_dispatchers_and_again_when_one_is_killed(
    yard: Yard, mongod: LocalMongod
) -> None:
    one = station(yard, mongod, "one", callbacks__timeout_seconds=4.0)
    two = station(yard, mongod, "two", callbacks__timeout_seconds=4.0)
    yard.worker(one, two)
    client = yard.client(one, two)
    hangs = ("/hang", 1)
    with Receiver(lambda call, _: None if (call.path, call.tries) == hangs else 200) as receiver:
        quick = client.with_options(callback=f"{receiver.url}/done")
        done = quick.submit_many("work", [(n, 0.0) for n in range(30)])
        receiver.heard(30)
        until(lambda: all(client.job(job.id).callback.delivered for job in done))
        assert Counter(call.key for call in receiver.calls) == Counter(job.id for job in done)

        slow = client.with_options(callback=f"{receiver.url}/hang")
        hung = slow.submit_many("work", [(n, 0.0) for n in range(5)])
        receiver.heard(35)
        one.process.kill()

        until(lambda: all(client.job(job.id).callback.delivered for job in hung))
