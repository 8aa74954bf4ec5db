"""Children that could start and are still parked: who takes them, and what becomes of the rest."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from conformance.mongo.losing import Losses
from conformance.mongo.test_mongo_telling import HERE, dying, let_time_pass, notes, once
from conformance.store.given import NOW, claim, job, running
from conformance.store.telling import LATER, completing, due
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.job import Status, When
from shunter.model.lifecycle import WorkerSlot
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome
from shunter.store.mongo import MongoStore, free_children
from shunter.store.mongo import store as mongo_store
from shunter.store.mongo.claim_writes import ClaimWrites
from shunter.store.port import Batch


@pytest.fixture
def store(opened):
    return opened()


async def fan(store, *names, **changes):
    """Let jobs wait for a parent that runs."""
    await running(store, "root")
    parked = [
        job(
            name,
            created=NOW + at,
            **({"status": Status.WAITING, "when": When.ALL_OK} | changes),
        )
        for at, name in enumerate(names)
    ]
    edges = tuple(JobEdge(name, "root") for name in names)
    await store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=tuple(parked), edges=edges)]))
    return parked


async def complete(store, *claims, may_hold=True):
    done = await completing(store, "root")
    return await store.commit(replace(done, claims=claims, may_hold=may_hold))


def slots(count=1, *, now=LATER):
    return replace(claim(limit=count, now=now), slots=(WorkerSlot("w-2"),) * count)


def written(run, store, batch):
    """Offer a batch until it is written."""
    while True:
        try:
            return run(store.commit(batch))
        except StoreError:
            continue


def document(run, store, name):
    return run(store._connection.jobs.find_one({"_id": name}))


def statuses(run, store, *names):
    return "".join(it.status.value for it in run(store.get(names)))


def test_a_child_is_woken_and_started_by_one_write(run, store):
    [parked] = run(fan(store, "child"))
    losses = Losses(store, at=99, is_done=True)

    [[taken]] = run(complete(store, slots())).claimed

    assert losses.writes == 3, "the note, the parent, the child"
    assert taken.revision == parked.revision + 1
    found = document(run, store, "child")
    assert not {"wakes", "parked", "ready"} & found.keys()
    assert found["after"] == {"parents": ["root"]}
    assert notes(run, store) == []


def test_what_one_dispatcher_alone_can_start_stays_parked_until_it_has_room(run, store):
    run(fan(store, "first", "second", "third"))

    assert len(run(complete(store, slots())).claimed[0]) == 1

    assert statuses(run, store, "first", "second", "third") == "iww"
    assert len(notes(run, store)) == 1
    taken = run(store.commit(Batch(now=LATER, claims=[slots()], may_hold=True))).claimed[0]
    assert ([it.id for it in taken], len(notes(run, store))) == (["second"], 1)
    taken = run(store.commit(Batch(now=LATER, claims=[slots(2)], may_hold=True))).claimed[0]
    assert ([it.id for it in taken], notes(run, store)) == (["third"], [])


def test_when_another_dispatcher_has_come_all_children_are_queued(run, opened):
    store, other = opened(), opened()
    run(fan(store, "first", "second"))
    run(complete(store, slots()))

    run(store.commit(Batch(now=LATER)))

    assert statuses(run, store, "first", "second") == "iq"
    assert [it.id for it in run(other.claim(claim()))] == ["second"]
    assert notes(run, store) == []


def test_a_child_is_not_held_for_long(run, store, monkeypatch):
    [_, parked] = run(fan(store, "first", "second"))
    monkeypatch.setattr(free_children, "HELD_SECONDS", 0.0)

    run(complete(store, slots()))

    assert run(store.get(["second"], payload=True)) == [lifecycle.woken(parked, now=LATER)]


def test_a_child_is_queued_although_nothing_more_is_written(run, store, monkeypatch):
    monkeypatch.setattr(free_children, "HELD_SECONDS", 0.2)
    monkeypatch.setattr(mongo_store, "HELD_SECONDS", 0.2)
    heard = asyncio.Event()

    async def queued():
        await fan(store, "first", "second")
        monkeypatch.setattr(store._herald, "tell", heard.set)
        await complete(store, slots())
        async with asyncio.timeout(30):
            await heard.wait()

    run(queued())

    assert statuses(run, store, "first", "second") == "iq"
    assert notes(run, store) == []


def test_a_store_that_is_closed_leaves_no_child_parked(run, opened):
    store, other = opened(), opened()
    run(fan(store, "child"))
    run(complete(store))

    run(store.close())

    assert (statuses(run, other, "child"), notes(run, other)) == ("q", [])


def test_more_children_than_are_held_are_queued_those_behind_first(run, store, monkeypatch):
    monkeypatch.setattr(free_children, "MOST_HELD", 2)
    run(fan(store, "first", "second", "third", "fourth"))

    run(complete(store))

    assert statuses(run, store, "first", "second", "third", "fourth") == "wwqq"
    assert [it.id for it in run(store.claim(claim()))] == ["first", "second", "third", "fourth"]


def test_a_child_in_a_lane_is_queued_at_once(run, store):
    run(fan(store, "child", lane="ann"))

    run(complete(store))

    assert (statuses(run, store, "child"), notes(run, store)) == ("q", [])


def test_children_of_a_dispatcher_that_died_are_told_by_another(run, opened):
    store, other = opened(), opened()
    run(fan(store, "started", "parked"))
    run(complete(store, slots()))

    let_time_pass(run, other)
    run(other.meet(HERE))

    assert (run(due(other)), notes(run, other)) == (["root"], [])
    outcomes = run(other.standings(["started", "parked"]))
    assert outcomes == {
        "started": {ParentOutcome.COMPLETED},
        "parked": {ParentOutcome.PENDING},
    }


def test_a_child_that_was_cancelled_while_it_was_held_does_not_start(run, opened):
    store, other = opened(), opened()
    [parked] = run(fan(store, "child"))
    run(complete(store))
    stopped = lifecycle.cancelled(parked, now=LATER, stoppable=True)
    assert run(other.replace([stopped])) == [True]

    committed = run(store.commit(Batch(now=LATER, claims=[slots()], may_hold=True)))

    assert committed.claimed == [[]]
    assert statuses(run, store, "child") == "x"
    assert notes(run, store) == []


def test_a_child_that_is_to_wait_for_more_while_it_is_held_waits(run, opened):
    store, other = opened(), opened()
    [parked] = run(fan(store, "child"))
    run(complete(store))
    more = JobGraph(jobs=(job("more", type="later", dependents=True),))
    more = replace(more, edges=(JobEdge("child", "more"),))
    run(other.commit(Batch(now=NOW, graphs=[more])))

    committed = run(store.commit(Batch(now=LATER, claims=[slots()], may_hold=True)))

    assert committed.claimed == [[]]
    assert run(store.get(["child"], payload=True)) == [replace(parked, revision=1)]
    assert run(due(store)) == ["root"], "a dispatcher decides on what it waits for still"


def test_a_child_that_somebody_changes_before_it_is_started_is_left_to_them(
    run, opened, monkeypatch
):
    store, other = opened(), opened()
    [parked] = run(fan(store, "child"))
    woken = lifecycle.woken(parked, now=LATER + 1)
    once(monkeypatch, ClaimWrites, "write", lambda: other.replace([woken]))

    committed = run(complete(store, slots(), may_hold=False))

    [[taken]] = committed.claimed
    assert taken.revision == woken.revision + 1, "it was found in the queue then"
    assert statuses(run, store, "child") == "i"
    assert committed.told == set()
    assert (run(due(store)), notes(run, store)) == (["root"], [])


def test_two_who_told_the_same_parent_start_its_child_once(run, opened):
    store, other = opened(), opened()
    run(fan(store, "child"))
    run(complete(store))
    let_time_pass(run, other)
    run(other.meet(HERE))
    [parked] = run(other.get(["child"], payload=True))
    assert run(other.replace([lifecycle.woken(parked, now=LATER)])) == [True]
    [taken] = run(other.claim(slots()))

    committed = run(store.commit(Batch(now=LATER, claims=[slots()], may_hold=True)))

    assert (taken.id, committed.claimed) == ("child", [[]])
    assert run(store.get(["child"], payload=True)) == [taken]


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
def test_a_lost_answer_neither_starts_a_child_twice_nor_forgets_one(run, store, part, is_done):
    run(fan(store, "first", "second", "third"))
    losses = Losses(store, at=part, is_done=is_done)

    committed = run(complete(store, slots(2), may_hold=False))

    assert losses.have_happened is (part < 4), "the note, the parent, two children, the third"
    assert [it.id for it in committed.claimed[0]] == ["first", "second"]
    assert run(store.get(["first", "second"], payload=True)) == committed.claimed[0]
    assert statuses(run, store, "third") == "q"
    assert (run(due(store)), notes(run, store)) == ([], [])


@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("part", range(4))
def test_a_batch_that_failed_and_is_offered_again_starts_each_child_once(
    run, url, opened, part, is_done
):
    impatient = MongoStore(url, patience=0.0)
    run(impatient.open())
    try:
        run(fan(impatient, "first", "second"))
        done = run(completing(impatient, "root"))
        batch = replace(done, claims=[slots()], may_hold=True)
        Losses(impatient, at=part, is_done=is_done)

        [[taken]] = written(run, impatient, batch).claimed

        assert run(impatient.get(["first"], payload=True)) == [taken]
        assert taken.attempt == 1
        written(run, impatient, Batch(now=LATER))
        assert statuses(run, impatient, "first", "second") == "iq"
        assert notes(run, impatient) == []
    finally:
        run(impatient.close())


def test_a_dispatcher_that_dies_before_its_claim_leaves_a_note(run, opened, monkeypatch):
    store, other = opened(), opened()
    [parked] = run(fan(store, "child"))
    dying(monkeypatch, ClaimWrites, "write")
    with pytest.raises(StoreError):
        run(complete(store, slots()))

    let_time_pass(run, other)
    run(other.meet(HERE))

    assert run(other.get(["child"], payload=True)) == [parked]
    assert (run(due(other)), notes(run, other)) == (["root"], [])
