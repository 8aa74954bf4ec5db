"""What a claim under limits reads is a hint: the unique index and the swap of buckets decide."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, jobs
from shunter.model import lifecycle
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.lane_claim import LaneState
from shunter.model.lifecycle import WorkerSlot
from shunter.store.mongo import lanes
from shunter.store.mongo.inserting import Insertions
from shunter.store.mongo.replacing import Replacements
from shunter.store.port import Batch

A = {"keys": {"tenant": "a"}, "lane": "tenant=a"}


@pytest.fixture
def events(monkeypatch):
    """What happens in a batch, in order; writes take long enough for a claim to come before."""
    seen = []

    def slowed(perform):
        async def perform_slowly(part, connection):
            await asyncio.sleep(0.1)
            await perform(part, connection)
            seen.append("written")

        return perform_slowly

    def noted(look):
        async def look_noted(*given):
            seen.append("looked")
            return await look(*given)

        return look_noted

    for part in (Replacements, Insertions):
        monkeypatch.setattr(part, "perform", slowed(part.perform))
    monkeypatch.setattr(lanes, "taken", noted(lanes.taken))
    return seen


def wish(limits, count, *, is_roomy=True):
    slots = (WorkerSlot("w-1"),) * count
    return replace(claim(limit=count), limits=limits, slots=slots, is_roomy=is_roomy)


@pytest.mark.parametrize(
    ("is_roomy", "order"), [(True, ["looked", "written"]), (False, ["written", "looked"])]
)
@pytest.mark.parametrize("fair", ["", "tenant"])
def test_where_there_was_room_a_claim_looks_while_its_batch_is_written(
    run, store, events, fair, is_roomy, order
):
    limits = JobLimits(limit=Limit(50, by="tenant"), fair=fair)
    run(store.insert(jobs(6, **A)))
    [first, *_] = run(store.claim(wish(limits, 2)))
    events.clear()
    done = lifecycle.completed(first, first.attempt, result=b"\xc0", now=NOW)

    asked = wish(limits, 3, is_roomy=is_roomy)
    committed = run(store.commit(Batch(now=NOW, replacements=[done], claims=[asked])))

    assert events == order
    assert [it.id for it in committed.claimed[0]] == ["job-2", "job-3", "job-4"]
    assert committed.looks["sum"].guess is not None


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("is_returned", [False, True])
def test_a_claim_that_looked_too_early_gets_what_its_batch_frees_and_queues(
    run, store, is_returned
):
    limits = JobLimits(limit=Limit(2, by="tenant"))
    run(store.insert(jobs(4, **A)))
    [first, second] = run(store.claim(wish(limits, 2)))
    over = [lifecycle.completed(first, first.attempt, result=b"\xc0", now=NOW)]
    if is_returned:
        over.append(lifecycle.returned(second, second.attempt, "full", now=NOW))

    committed = run(store.commit(Batch(now=NOW, replacements=over, claims=[wish(limits, 5)])))

    expected = [second.id, "job-2"] if is_returned else ["job-2"]
    assert [it.id for it in committed.claimed[0]] == expected


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("limit", [Limit(2, by="tenant"), Limit(50, by="tenant")])
def test_an_early_look_takes_nothing_before_what_its_batch_puts_at_the_front(run, store, limit):
    limits = JobLimits(limit=limit)
    run(store.insert(jobs(4, **A)))
    urgent, newest = job("urgent", priority=5, **A), job("newest", created=NOW + 1, **A)
    batch = Batch(now=NOW, inserts=[urgent, newest], claims=[wish(limits, 2)])

    assert [it.id for it in run(store.commit(batch)).claimed[0]] == ["urgent", "job-0"]


@pytest.mark.parametrize("limit", [Limit(2, by="tenant"), Limit(2)])
def test_a_claim_that_believes_places_to_be_free_is_refused_them(run, store, monkeypatch, limit):
    limits = JobLimits(limit=limit)
    keys = {"tenant": "a"}
    run(store.insert(jobs(5, keys=keys, lane=limits.lane(keys))))
    wanted = replace(claim(limit=5), limits=limits)
    assert len(run(store.claim(wanted))) == 2

    async def nothing(*_):
        return LaneState(limits, {}, set())

    monkeypatch.setattr(lanes, "taken", nothing)
    done = run(store.commit(Batch(now=NOW, claims=[replace(wanted, dispatcher_id="d-2")])))

    assert done.claimed == [[]]
    assert done.looks["sum"].is_more


def test_a_claim_that_believes_tokens_to_be_there_is_refused_them(run, store, monkeypatch):
    limits = JobLimits(rate=Rate(10, per=10))
    run(store.insert(jobs(5, lane="")))
    wanted = replace(claim(limit=5), limits=limits)
    assert len(run(store.claim(wanted))) == 1

    async def nothing(*_):
        """Nobody has taken anything."""

    monkeypatch.setattr(lanes, "read_buckets", nothing)

    assert run(store.claim(wanted)) == []
