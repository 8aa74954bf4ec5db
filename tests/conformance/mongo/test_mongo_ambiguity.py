"""Writes whose answer was lost: repeated, they are recognised, and nothing happens twice."""

from __future__ import annotations

import asyncio

import pytest

from conformance.mongo.losing import Losses
from conformance.store.given import NOW, claim, job, jobs
from conformance.store.world import (
    APART,
    BIG,
    OVERLAPPING,
    given_world,
    stored,
    told,
    undisturbed,
)
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.job import Status
from shunter.model.lifecycle import WorkerSlot
from shunter.store.port import Batch

MOST_WRITES = 20

pytestmark = pytest.mark.timeout(300)
"""A thousand round trips one after the other, each of which waits for a busy machine twice."""


def test_the_batch_of_these_tests_does_something_of_everything(run, store):
    told_of, (all_jobs, workers, edges, _) = run(undisturbed(store))
    inserted, replaced, claimed, graphs, entered = told_of

    assert inserted == ["mine", "mine", "taken", "refused", "mine", "twice", "mine"]
    assert replaced == [True, True, True, True, False, True]
    assert [[name for name, _, _ in part] for part in claimed] == [
        ["old-4", "old-5", "new"],
        ["taken", "big", "twice"],
    ]
    assert entered == [True, True, False, True]
    assert len(all_jobs) == 15
    assert graphs == [["root", "leaf"], "refused"]
    assert len(edges) == 3
    assert [it.last_pinged for it in workers] == [NOW + 1, NOW]


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("claims", [APART, OVERLAPPING], ids=["together", "in order"])
def test_wherever_an_answer_is_lost_the_outcome_is_the_same(run, opened, claims, is_done):
    async def lose(store, at):
        """Lose the answer to write `at`; return what was told and stored in the end."""
        batch = await given_world(store, claims)
        losses = Losses(store, at=at, is_done=is_done)
        committed = await store.commit(batch)
        return (told(batch, committed), await stored(store)), losses.have_happened

    expected = run(undisturbed(opened(), claims))
    for at in range(MOST_WRITES):
        store = opened(patience=10.0)
        run(_emptied(store))
        outcome, was_lost = run(lose(store, at))
        assert outcome == expected, f"the answer to write {at} was lost"
        if not was_lost:
            break
    else:
        raise AssertionError("the batch never came to its end")
    assert at >= 7, "there are fewer writes than parts, so the losses did not reach them"


def test_a_batch_that_failed_many_times_is_written_once(run, opened):
    store = opened(patience=0.0)
    batch = run(given_world(store))
    losses = Losses(store, at=0, is_done=True, times=12)
    failures = 0

    async def insist():
        nonlocal failures
        while True:
            try:
                return await store.commit(batch)
            except StoreError:
                failures += 1

    inserted, replaced, *_ = told(batch, run(insist()))

    assert losses.have_happened
    assert failures >= 3  # parts that are under way together fail together
    assert inserted == ["mine", "mine", "taken", "refused", "mine", "twice", "mine"]
    assert replaced == [True, True, True, True, False, True]


def test_an_equal_batch_is_not_taken_for_the_same_one(run, opened):
    store = opened(patience=0.0)
    Losses(store, at=0, is_done=True)
    first = Batch(now=NOW, inserts=[job("one")])
    with pytest.raises(StoreError):
        run(store.commit(first))

    [stored_now] = run(store.commit(Batch(now=NOW, inserts=[job("one")]))).inserted
    [mine] = run(store.commit(first)).inserted

    assert stored_now == job("one")
    assert mine is first.inserts[0]


def test_a_write_that_was_overtaken_after_its_answer_was_lost_counts_as_refused(run, opened):
    store, rival = opened(patience=0.0), opened()
    run(store.insert([job("one")]))
    [claimed] = run(store.claim(claim()))
    Losses(store, at=0, is_done=True)
    batch = Batch(now=NOW, replacements=[lifecycle.started(claimed, WorkerSlot("w-1"), now=NOW)])
    with pytest.raises(StoreError):
        run(store.commit(batch))
    run(rival.replace([lifecycle.returned(batch.replacements[0], 1, "cut off", now=NOW)]))

    assert run(store.commit(batch)).replaced == [False]
    [now_stored] = run(rival.get(["one"]))
    assert (now_stored.status, now_stored.revision) == (Status.QUEUED, 3)


def test_a_job_inserted_by_a_lost_answer_and_claimed_since_is_given_as_it_stands(run, opened):
    store, rival = opened(patience=0.0), opened()
    Losses(store, at=0, is_done=True)
    batch = Batch(now=NOW, inserts=[job("one")])
    with pytest.raises(StoreError):
        run(store.commit(batch))
    [theirs] = run(rival.claim(claim(by="d-2")))

    assert run(store.commit(batch)).inserted == [theirs]


def test_a_big_payload_outlives_a_lost_answer_and_a_claim_in_between(run, opened):
    store, rival = opened(patience=0.0), opened()
    Losses(store, at=1, is_done=True)  # its parts, then the job
    batch = Batch(now=NOW, inserts=[job("one", payload=BIG)])
    with pytest.raises(StoreError):
        run(store.commit(batch))
    [theirs] = run(rival.claim(claim(by="d-2")))

    assert run(store.commit(batch)).inserted == [theirs]
    assert run(rival.get(["one"], payload=True)) == [theirs]
    assert theirs.payload == BIG


def test_a_claim_whose_answer_was_lost_takes_no_more_than_its_limit(run, opened):
    store, rival = opened(patience=0.0), opened()
    run(store.insert(jobs(10)))
    Losses(store, at=0, is_done=True)
    batch = Batch(now=NOW, claims=[claim(limit=4)])
    with pytest.raises(StoreError):
        run(store.commit(batch))
    theirs = run(rival.claim(claim(limit=4)))

    [mine] = run(store.commit(batch)).claimed

    assert [it.id for it in mine] == [f"job-{number}" for number in range(4)]
    assert [it.id for it in theirs] == [f"job-{number}" for number in range(4, 8)]
    assert [it.id for it in run(rival.claim(claim()))] == ["job-8", "job-9"]


@pytest.mark.parametrize(
    "fault",
    [
        {"closeConnection": True},
        {"errorCode": 10107},
        {"errorCode": 11602},
        {"errorCode": 91, "closeConnection": False},
        {"writeConcernError": {"code": 91, "errmsg": "shutting down"}},
        {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["insert", "update"])
def test_faults_of_the_server_itself_are_ridden_out(run, opened, mongod, fault, command):
    expected = run(undisturbed(opened()))
    store = opened()
    run(_emptied(store))

    async def through_faults():
        batch = await given_world(store)
        order = {
            "configureFailPoint": "failCommand",
            "mode": {"times": 1 if "errorCode" in fault else 2},
            "data": {"failCommands": [command], "appName": "shunter", **fault},
        }
        await asyncio.to_thread(mongod.command, "admin", order)
        return told(batch, await store.commit(batch)), await stored(store)

    try:
        assert run(through_faults()) == expected
    finally:
        mongod.command("admin", {"configureFailPoint": "failCommand", "mode": "off"})


async def _emptied(store):
    for collection in ("jobs", "workers", "edges", "blobs", "journal"):
        await store._connection.database[collection].delete_many({})
