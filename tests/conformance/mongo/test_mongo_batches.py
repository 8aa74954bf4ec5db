"""A batch whose parts are under way at the same time: the outcome is as if they were not."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from conformance.mongo.losing import Losses
from conformance.store.given import NOW, claim, job, jobs, worker
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.job import Status
from shunter.model.lifecycle import WorkerSlot
from shunter.store.mongo.front import HALF_LIFE, Contention
from shunter.store.mongo.insertions import Insertions
from shunter.store.mongo.replacements import Replacements
from shunter.store.port import Batch


def claimed_ids(committed):
    return [[it.id for it in part] for part in committed.claimed]


@pytest.fixture
def slow_writes(monkeypatch):
    """Whatever a batch replaces or inserts is written when a claim could long be done."""

    def slowed(perform):
        async def perform_slowly(part, connection):
            await asyncio.sleep(0.1)
            await perform(part, connection)

        return perform_slowly

    for part in (Replacements, Insertions):
        monkeypatch.setattr(part, "perform", slowed(part.perform))


@pytest.mark.usefixtures("slow_writes")
def test_a_claim_gets_first_what_its_own_batch_puts_at_the_front(run, store):
    run(store.insert(jobs(4)))
    [first] = run(store.claim(claim(limit=1)))
    batch = Batch(
        now=NOW,
        replacements=[lifecycle.released(first, now=NOW)],
        inserts=[job("urgent", priority=5), job("newest", created=NOW + 1)],
        claims=[claim(limit=3)],
    )

    assert claimed_ids(run(store.commit(batch))) == [["urgent", "job-0", "job-1"]]
    assert [it.id for it in run(store.claim(claim()))] == ["job-2", "job-3", "newest"]


@pytest.mark.usefixtures("slow_writes")
def test_a_claim_does_not_get_what_its_own_batch_cancels(run, store):
    [first, *_] = given = jobs(3)
    run(store.insert(given))
    batch = Batch(
        now=NOW,
        replacements=[lifecycle.cancelled(first, now=NOW, stoppable=False)],
        claims=[claim(limit=2)],
    )

    committed = run(store.commit(batch))

    assert committed.replaced == [True]
    assert claimed_ids(committed) == [["job-1", "job-2"]]


@pytest.mark.usefixtures("slow_writes")
@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_a_claim_gets_what_its_own_batch_failed_to_replace(run, store, limit):
    given = jobs(4)
    run(store.insert(given))
    stale = [replace(it, revision=7, log="stale") for it in given[:2]]
    batch = Batch(now=NOW, replacements=stale, claims=[claim(limit=limit)])

    committed = run(store.commit(batch))

    assert committed.replaced == [False, False]
    assert claimed_ids(committed) == [[it.id for it in given[:limit]]]


def test_a_claim_does_not_wait_for_replacements_that_fail(run, opened):
    store = opened(patience=0.0)
    given = jobs(2)
    run(store.insert(given))
    gone = [lifecycle.cancelled(it, now=NOW, stoppable=False) for it in given]
    batch = Batch(now=NOW, replacements=gone, claims=[claim(limit=2)])
    Losses(store, at=0, is_done=False)

    with pytest.raises(StoreError):
        run(store.commit(batch))
    committed = run(store.commit(batch))

    assert (committed.replaced, claimed_ids(committed)) == ([True, True], [[]])


def test_claims_of_one_batch_are_served_in_their_order(run, store):
    run(store.insert(jobs(6)))
    claims = [claim(limit=2, by="d-1"), claim("other", limit=2), claim(limit=3, by="d-3")]

    committed = run(store.commit(Batch(now=NOW, claims=claims)))

    assert claimed_ids(committed) == [["job-0", "job-1"], [], ["job-2", "job-3", "job-4"]]


def test_a_job_that_is_inserted_can_be_replaced_by_a_later_batch_only(run, store):
    new = job("one")
    step = lifecycle.cancelled(new, now=NOW, stoppable=False)

    committed = run(store.commit(Batch(now=NOW, inserts=[new], replacements=[step])))

    assert (committed.inserted, committed.replaced) == ([new], [False])
    assert run(store.get(["one"], payload=True)) == [new]


def test_workers_are_put_and_then_renewed(run, store):
    given = [worker("w-1", is_dead=True), worker("w-1"), worker("w-2", is_dead=True)]

    run(store.commit(Batch(now=NOW + 3, workers=given, renewed=["w-1", "nobody"])))

    [first, second] = run(store.workers())
    assert (first.last_pinged, first.is_dead) == (NOW + 3, False)
    assert (second.last_pinged, second.is_dead) == (NOW, True)


@pytest.fixture
def meanwhile(store):
    """Have something happen once, after the store looked at its queue and before it takes."""

    def arrange(happening):
        collection = store._connection.newest_jobs
        store._connection.newest_jobs = _Interrupted(collection, [happening])

    return arrange


class _Interrupted:
    """A collection, and a query on it, behind whose first answer something happens."""

    def __init__(self, query, happenings):
        self._query, self._happenings = query, happenings

    def __getattr__(self, name):
        async def answered(*arguments):
            found = await self._query.to_list(*arguments)
            while self._happenings:
                await self._happenings.pop()()
            return found

        def refined(*arguments, **options):
            query = getattr(self._query, name)(*arguments, **options)
            return _Interrupted(query, self._happenings)

        return answered if name == "to_list" else refined


def test_berths_that_were_lost_to_a_rival_are_filled_with_the_next(run, store, opened, meanwhile):
    rival, given = opened(), jobs(6)
    run(store.insert(given))

    async def steal():
        gone = [lifecycle.cancelled(it, now=NOW, stoppable=False) for it in given[1:3]]
        assert all(await rival.replace(gone))

    meanwhile(steal)
    slots = tuple(WorkerSlot(f"w-{number}") for number in range(4))

    taken = run(store.claim(replace(claim(limit=4), slots=slots)))

    assert [(it.id, it.execution.worker_id) for it in taken] == [
        ("job-0", "w-0"),
        ("job-3", "w-3"),
        ("job-4", "w-1"),
        ("job-5", "w-2"),
    ]
    assert {it.status for it in taken} == {Status.IN_PROGRESS}


def test_a_job_that_changed_since_it_was_seen_is_taken_as_it_is_now(run, store, opened, meanwhile):
    rival = opened()
    run(store.insert(jobs(2)))

    async def run_it_in_between():
        [taken] = await rival.claim(claim(limit=1))
        started = lifecycle.started(taken, WorkerSlot("w-9"), now=NOW)
        back = lifecycle.returned(started, 1, "was not done", now=NOW)
        assert await rival.replace([started, back]) == [True, True]

    meanwhile(run_it_in_between)

    [first, second] = run(store.claim(claim(limit=2)))

    assert (first.id, first.revision, first.attempt) == ("job-0", 4, 1)
    assert [past.worker_id for past in first.history] == ["w-9"]
    assert second.id == "job-1"
    assert run(store.get(["job-0"], payload=True)) == [first]


# ---- rivals at the front


def test_who_meets_nobody_looks_at_the_very_front():
    crowd = Contention()
    for _ in range(100):
        crowd.note(bids=16, losses=0)

    assert {crowd.place(16) for _ in range(100)} == {0}


def test_who_loses_leaves_room_for_others_and_comes_back_when_they_are_gone(monkeypatch):
    now = 0.0
    monkeypatch.setattr("shunter.store.mongo.front.monotonic", lambda: now)
    crowd = Contention()
    for _ in range(3):
        crowd.note(bids=16, losses=10)

    assert {crowd.place(16) for _ in range(1000)} == {0, 16, 32, 48}

    now = 5 * HALF_LIFE
    crowd.note(bids=16, losses=0)
    assert {crowd.place(16) for _ in range(1000)} == {0}


@pytest.mark.parametrize("limit", [3, 50])
def test_a_claim_that_leaves_room_still_leaves_nothing_behind(run, store, limit):
    run(store.insert(jobs(20)))
    for _ in range(8):
        store._contention.note(bids=1, losses=1)

    taken = []
    while part := run(store.claim(claim(limit=limit))):
        taken += part

    assert sorted(it.id for it in taken) == sorted(it.id for it in jobs(20))
