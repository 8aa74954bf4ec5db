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
from shunter.model.place_guess import KEPT_SECONDS
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


def claim_of(limits, count, *, is_roomy=True):
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
    [first, *_] = run(store.claim(claim_of(limits, 2)))
    events.clear()
    done = lifecycle.completed(first, first.attempt, result=b"\xc0", now=NOW)

    asked = claim_of(limits, 3, is_roomy=is_roomy)
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
    [first, second] = run(store.claim(claim_of(limits, 2)))
    over = [lifecycle.completed(first, first.attempt, result=b"\xc0", now=NOW)]
    if is_returned:
        over.append(lifecycle.returned(second, second.attempt, "full", now=NOW))

    committed = run(store.commit(Batch(now=NOW, replacements=over, claims=[claim_of(limits, 5)])))

    expected = [second.id, "job-2"] if is_returned else ["job-2"]
    assert [it.id for it in committed.claimed[0]] == expected


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("limit", [Limit(2, by="tenant"), Limit(50, by="tenant")])
def test_an_early_look_takes_nothing_before_what_its_batch_puts_at_the_front(run, store, limit):
    limits = JobLimits(limit=limit)
    run(store.insert(jobs(4, **A)))
    urgent, newest = job("urgent", priority=5, **A), job("newest", created=NOW + 1, **A)
    batch = Batch(now=NOW, inserts=[urgent, newest], claims=[claim_of(limits, 2)])

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


def count_places(monkeypatch):
    """The types whose places are read from now on."""
    seen = []

    async def noted(connection, job_type, limits, taken=lanes.taken):
        seen.append(job_type)
        return await taken(connection, job_type, limits)

    monkeypatch.setattr(lanes, "taken", noted)
    return seen


def guessed(run, store, limits):
    """What a claim has left to be given away, a moment later, when its lanes are too old."""
    run(store.insert([job("first", **A)]))
    committed = run(store.commit(Batch(now=NOW, claims=[claim_of(limits, 1)])))
    return replace(committed.looks["sum"].guess, is_known=True), NOW + KEPT_SECONDS


@pytest.mark.parametrize("fair", ["", "tenant"])
def test_a_guess_that_is_too_old_for_its_lanes_reads_those_and_no_places(
    run, store, monkeypatch, fair
):
    limits = JobLimits(limit=Limit(50, by="tenant", total=80), fair=fair)
    guess, now = guessed(run, store, limits)
    new = job("b", keys={"tenant": "b"}, lane="tenant=b")
    run(store.insert([*jobs(2, **A), new, job("unsorted", keys={"tenant": "c"})]))
    read = count_places(monkeypatch)

    asked = replace(claim_of(limits, 4), now=now, guess=guess, first=1)
    committed = run(store.commit(Batch(now=now, claims=[asked])))

    assert read == []
    assert {it.id for it in committed.claimed[0]} == {"job-0", "job-1", "b", "unsorted"}
    left = committed.looks["sum"].guess
    assert left.lanes == ["tenant=a", "tenant=b", "tenant=c"]
    assert (left.looked_at, left.counted_at) == (now, NOW)


def test_a_look_before_its_batch_knows_the_lanes_that_the_batch_puts_jobs_into(run, store, events):
    limits = JobLimits(limit=Limit(50, by="tenant"))
    guess, now = guessed(run, store, limits)
    events.clear()
    new = job("b", keys={"tenant": "b"}, lane="tenant=b")

    known = replace(guess, lanes=["tenant=a", "tenant=b"])
    asked = replace(claim_of(limits, 1), now=now, guess=known, first=1)
    committed = run(store.commit(Batch(now=now, inserts=[new], claims=[asked])))

    assert "looked" not in events, "the lane was known, so places were not read"
    assert [it.id for it in committed.claimed[0]] == ["b"]


def test_a_guess_in_vain_over_new_lanes_ends_with_a_look_at_places(run, store, monkeypatch):
    limits = JobLimits(limit=Limit(50, by="tenant"))
    guess, now = guessed(run, store, limits)
    run(store.insert(jobs(2, **A)))
    read = count_places(monkeypatch)

    asked = replace(
        claim_of(limits, 2), now=now, guess=guess, first=0
    )  # the place of the first job
    committed = run(store.commit(Batch(now=now, claims=[asked])))

    assert read == ["sum"]
    assert [it.id for it in committed.claimed[0]] == ["job-1", "job-0"]


def test_where_nothing_waits_places_are_not_read_and_what_was_known_of_them_holds(
    run, store, monkeypatch
):
    limits = JobLimits(limit=Limit(50, by="tenant"))
    guess, now = guessed(run, store, limits)
    read = count_places(monkeypatch)

    looks = [
        run(store.commit(Batch(now=now, claims=[replace(claim_of(limits, 2), now=now, guess=it)])))
        for it in (guess, None)
    ]

    assert read == []
    by_guess, without = (it.looks["sum"] for it in looks)
    assert (by_guess.guess.looked_at, by_guess.is_held_back) == (now, False)
    assert (without.is_empty, without.is_held_back, without.is_more) == (True, False, False)


@pytest.mark.parametrize("limit", [Limit(9, by="tenant"), Limit(9), Limit(9, by="t", total=12)])
def test_the_numbers_of_places_are_in_their_names_alone(run, store, limit):
    limits = JobLimits(limit=limit)
    run(store.insert([job("it", **A)]))
    [taken] = run(store.claim(claim_of(limits, 1)))
    places = [taken.execution.limit_place, taken.execution.total_place]

    found = run(store._connection.jobs.find_one({"_id": "it"}))
    read = run(store.get(["it"]))
    run(store.replace([lifecycle.completed(taken, taken.attempt, result=b"\xc0", now=NOW)]))
    [ended] = run(store.get(["it"]))

    assert read == [replace(taken, payload=None)]
    assert any(it is not None for it in places)
    assert not {"limit_place", "total_place"} & found["execution"].keys()
    assert [it for it in ("limit_place", "total_place") if it in found] == [
        it for it in ("limit_place", "total_place") if getattr(taken.execution, it) is not None
    ]
    assert ended.execution.limit_place is ended.execution.total_place is None


def test_a_job_that_an_older_version_has_started_leaves_its_places(run, store):
    limits = JobLimits(limit=Limit(1, by="tenant"))
    run(store.insert(jobs(2, **A)))
    [first] = run(store.claim(claim_of(limits, 1)))
    older = {"$set": {"execution.limit_place": 0}}
    run(store._connection.jobs.update_one({"_id": first.id}, older))

    [read] = run(store.get([first.id]))
    is_full = not run(store.claim(claim_of(limits, 1)))
    run(store.replace([lifecycle.completed(read, read.attempt, result=b"\xc0", now=NOW)]))

    assert read == replace(first, payload=None)
    assert is_full
    assert [it.id for it in run(store.claim(claim_of(limits, 1)))] == ["job-1"]
