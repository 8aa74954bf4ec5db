"""Several clients of one database: each write has one author, whoever else is at it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from conformance.store import test_store_claims_hold as hold
from conformance.store.given import NOW, claim, job, jobs, running
from shunter.errors import UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.lifecycle import WorkerSlot

TESTS = Path(__file__).parents[2]

CLAIM_UNTIL_EMPTY = """
import asyncio, sys
from conformance.store.given import claim
from shunter.store.mongo import MongoStore

async def main():
    store = MongoStore(sys.argv[1])
    await store.open()
    print("ready")
    is_served, misses = False, 0
    while misses < (3 if is_served else 2000):
        part = await store.claim(claim(limit=7, by=sys.argv[2]))
        for it in part:
            print(it.id)
        is_served = is_served or bool(part)
        misses = 0 if part else misses + 1
        await asyncio.sleep(0.002)
    await store.close()

asyncio.run(main())
"""


class InTurn:
    """A store whose calls go to one client after the other."""

    def __init__(self, stores):
        self._stores = cycle(stores)

    def __getattr__(self, name):
        return getattr(next(self._stores), name)


@pytest.fixture
def clients(opened):
    return [opened() for _ in range(3)]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(turns=hold.turns)
def test_whatever_clients_do_at_once_every_revision_has_one_author(run, clients, turns):
    run(hold._play(InTurn(clients), turns, world=next(hold.worlds)))


def test_clients_that_claim_at_once_share_no_job_and_leave_none(run, clients):
    run(clients[0].insert(jobs(300)))

    async def all_at_once():
        return await asyncio.gather(
            *(clients[number % 3].claim(claim(by=f"d-{number}", limit=7)) for number in range(60))
        )

    parts = run(all_at_once())

    assert sorted(it.id for part in parts for it in part) == sorted(it.id for it in jobs(300))
    for number, part in enumerate(parts):
        assert all(it.dispatcher.id == f"d-{number}" for it in part)


def test_processes_that_claim_at_once_share_no_job(run, store, url):
    command = [sys.executable, "-u", "-c", CLAIM_UNTIL_EMPTY, url]
    claimants = [
        subprocess.Popen(
            [*command, f"d-{number}"],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(TESTS)},
        )
        for number in range(2)
    ]
    try:
        assert [claimant.stdout.readline() for claimant in claimants] == ["ready\n", "ready\n"]
        run(store.insert(jobs(1500)))
        shares = [claimant.communicate(timeout=60)[0].split() for claimant in claimants]
    finally:
        for claimant in claimants:
            claimant.kill()
            claimant.wait()
            claimant.stdout.close()

    assert Counter(name for share in shares for name in share) == Counter(
        it.id for it in jobs(1500)
    )
    assert all(shares), "one of them got nothing, so there was no race"


def test_of_clients_that_replace_at_once_exactly_one_wins(run, clients):
    started = run(running(clients[0], "one"))
    rivals = [
        lifecycle.completed(started, 1, result=bytes([number]), now=NOW) for number in range(12)
    ]

    async def all_at_once():
        calls = [clients[at % 3].replace([rival]) for at, rival in enumerate(rivals)]
        return [answer for [answer] in await asyncio.gather(*calls)]

    answers = run(all_at_once())

    assert answers.count(True) == 1
    [stored] = run(clients[1].get(["one"]))
    assert stored.result == rivals[answers.index(True)].result


def test_of_clients_that_insert_one_key_at_once_exactly_one_gets_it(run, clients):
    offered = [
        job(f"job-{number}", unique_key="k", payload=bytes([number])) for number in range(12)
    ]

    async def all_at_once():
        calls = [clients[at % 3].insert([it]) for at, it in enumerate(offered)]
        return [answer for [answer] in await asyncio.gather(*calls)]

    answers = run(all_at_once())

    [winner] = [it for it in answers if not isinstance(it, UniqueKeyTaken)]
    assert winner in offered
    assert all(it is winner or it.holder == winner.id for it in answers)


def test_jobs_of_one_client_keep_their_order_among_those_of_others(run, clients):
    async def insert(number):
        for at in range(10):
            await clients[number].insert([job(f"{number}-{at}")])

    async def all_at_once():
        await asyncio.gather(*(insert(number) for number in range(3)))
        return await clients[0].claim(claim(limit=100))

    taken = [it.id for it in run(all_at_once())]

    for number in range(3):
        mine = [name for name in taken if name.startswith(f"{number}-")]
        assert mine == [f"{number}-{at}" for at in range(10)]


def test_an_old_claim_of_a_client_that_was_away_wins_nothing(run, clients):
    run(clients[0].insert([job("one")]))
    [mine] = run(clients[0].claim(claim(by="d-1")))
    run(clients[1].replace([lifecycle.released(mine, now=NOW + 6)]))
    [theirs] = run(clients[1].claim(claim(by="d-2")))

    late = lifecycle.started(mine, WorkerSlot("w-1"), now=NOW + 7)

    assert run(clients[0].replace([late])) == [False]
    assert run(clients[0].get(["one"], payload=True)) == [theirs]
