"""Telling dependents on MongoDB: two who do it at once, and one who dies in between."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from pymongo.read_concern import ReadConcern

from conformance.mongo.losing import Losses
from conformance.store.given import NOW, claim, job, running
from conformance.store.telling import LATER, complete, completing, due, wait
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.job import Status, When
from shunter.model.presence import Presence
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome
from shunter.store.mongo import inline_edges
from shunter.store.mongo.replacements import Replacements
from shunter.store.mongo.told_dependents import LEFT_TO_OTHERS_MS, Telling
from shunter.store.port import Batch

HERE = Presence(dispatcher_id="d-2", clock=NOW, host="host", uptime=1.0)
COMPLETED, FAILED = ParentOutcome.COMPLETED, ParentOutcome.FAILED


def stored(run, store, *names):
    return run(store.get(names, payload=True))


def notes(run, store):
    newest = store._connection.database.get_collection(
        "tellings", read_concern=ReadConcern("local")
    )
    return run(newest.find().to_list())


def let_time_pass(run, store):
    """Make all notes as old as others have to wait for."""
    age = [{"$set": {"at": {"$subtract": ["$at", LEFT_TO_OTHERS_MS]}}}]
    run(store._connection.tellings.update_many({}, age))


def once(monkeypatch, owner, name, act):
    """Have something happen before a method is called for the first time."""
    method = getattr(owner, name)

    async def acting(self, *arguments):
        monkeypatch.setattr(owner, name, method)
        await act()
        return await method(self, *arguments)

    monkeypatch.setattr(owner, name, acting)


def dying(monkeypatch, owner, name):
    """Let a dispatcher die where it would call a method."""

    async def die():
        raise StoreError("it died")

    once(monkeypatch, owner, name, die)


def test_a_parent_and_its_child_are_written_once_each_and_no_note_stays(run, store):
    run(running(store, "a"))
    run(wait(store, "a"))
    losses = Losses(store, at=99, is_done=True)

    assert run(complete(store, "a")).told == {"a"}

    assert losses.writes == 3, "the note, the parent, the child"
    assert notes(run, store) == []


def test_parents_that_end_at_two_dispatchers_at_once_wake_their_child(run, opened, monkeypatch):
    first, second = opened(), opened()
    for name in ("a", "b"):
        run(running(first, name))
    parked = run(wait(first, "a", "b"))
    barrier = asyncio.Barrier(2)
    perform = Replacements.perform

    async def performed(self, connection):
        await barrier.wait()  # both have seen that the child waits for both
        await perform(self, connection)

    monkeypatch.setattr(Replacements, "perform", performed)

    async def both():
        return await asyncio.gather(complete(first, "a"), complete(second, "b"))

    told = run(both())

    assert [it.told for it in told] == [{"a"}, {"b"}]
    assert {"sum"} in [it.woken for it in told]
    assert stored(run, first, "child") == [lifecycle.woken(parked, now=LATER)]
    assert run(due(first)) == []


@pytest.mark.parametrize("part", [0, 1, 2, 3])
@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
def test_a_lost_answer_changes_nothing(run, opened, part, is_done):
    store = opened()
    for name in ("a", "b", "other"):
        run(running(store, name))
    parked = run(wait(store, "a", "b"))
    late = job("late", status=Status.WAITING, when=When.ALL_OK)
    edges = (JobEdge("late", "a"), JobEdge("late", "other"))
    run(store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=(late,), edges=edges)])))
    Losses(store, at=part, is_done=is_done)

    committed = run(complete(store, "a", "b"))

    assert (committed.replaced, committed.told) == ([True, True], {"a", "b"})
    assert stored(run, store, "child", "late") == [lifecycle.woken(parked, now=LATER), late]
    assert run(store.standings(["late"])) == {"late": {COMPLETED, ParentOutcome.PENDING}}
    assert (run(due(store)), notes(run, store)) == ([], [])


def test_who_finds_the_note_of_a_dead_dispatcher_makes_its_parents_due(run, opened, monkeypatch):
    store, other = opened(), opened()
    run(running(store, "a"))
    parked = run(wait(store, "a"))
    dying(monkeypatch, Telling, "_told")
    with pytest.raises(StoreError):
        run(complete(store, "a"))
    assert run(due(other)) == []

    run(other.meet(HERE))
    assert run(due(other)) == [], "it may be alive"
    let_time_pass(run, other)
    run(other.meet(HERE))

    assert run(due(other)) == ["a"]
    assert stored(run, other, "child") == [parked]
    assert run(other.standings(["child"])) == {"child": {ParentOutcome.PENDING}}
    assert notes(run, other) == []


def test_an_end_that_was_on_its_way_when_its_note_was_taken_up_is_refused(run, opened, monkeypatch):
    store, other = opened(), opened()
    run(running(store, "a"))
    parked = run(wait(store, "a"))

    async def take_up():
        age = [{"$set": {"at": {"$subtract": ["$at", LEFT_TO_OTHERS_MS]}}}]
        await other._connection.tellings.update_many({}, age)
        await other.meet(HERE)

    once(monkeypatch, Replacements, "perform", take_up)
    late = run(complete(store, "a"))

    assert (late.replaced, late.told) == ([False], set())
    assert stored(run, store, "child") == [parked]
    again = run(complete(store, "a"))
    assert (again.replaced, again.told) == ([True], {"a"})
    assert stored(run, store, "child") == [lifecycle.woken(parked, now=LATER)]


def test_a_dispatcher_that_was_only_slow_tells_as_well(run, opened, monkeypatch):
    store, other = opened(), opened()
    run(running(store, "a"))
    parked = run(wait(store, "a"))

    async def take_up():
        age = [{"$set": {"at": {"$subtract": ["$at", LEFT_TO_OTHERS_MS]}}}]
        await other._connection.tellings.update_many({}, age)
        await other.meet(HERE)

    once(monkeypatch, Telling, "_told", take_up)

    assert run(complete(store, "a")).replaced == [True]

    assert stored(run, store, "child") == [lifecycle.woken(parked, now=LATER)]
    assert run(due(store)) == ["a"], "whoever tells again finds everything told"


def test_a_parent_that_failed_meanwhile_leaves_the_other_one_due(run, opened, monkeypatch):
    store, other = opened(), opened()
    for name in ("a", "b"):
        run(running(store, name))
    parked = run(wait(store, "a", "b", when=When.ALL_DONE))
    failed = Batch(now=NOW, outcomes=[JobEdge("child", "b", FAILED)])
    once(monkeypatch, Replacements, "perform", lambda: other.commit(failed))

    assert run(complete(store, "a")).told == set()

    assert run(due(store)) == ["a"]
    assert stored(run, store, "child") == [parked]
    assert run(store.standings(["child"])) == {"child": {COMPLETED, FAILED}}


def test_a_child_that_is_to_wait_for_more_meanwhile_waits(run, opened, monkeypatch):
    store, other = opened(), opened()
    run(running(store, "a"))
    parked = run(wait(store, "a"))
    more = JobGraph(jobs=(job("more", dependents=True),), edges=(JobEdge("child", "more"),))
    once(monkeypatch, Replacements, "perform", lambda: other.commit(Batch(now=NOW, graphs=[more])))

    assert run(complete(store, "a")).told == set()

    assert run(due(store)) == ["a"]
    assert stored(run, store, "child") == [replace(parked, revision=1)]
    assert run(store.standings(["child"])) == {"child": {COMPLETED, ParentOutcome.PENDING}}


def test_a_child_that_was_cancelled_meanwhile_stays_so(run, opened, monkeypatch):
    store, other = opened(), opened()
    run(running(store, "a"))
    parked = run(wait(store, "a"))
    gone = lifecycle.cancelled(parked, now=NOW, stoppable=False)
    once(monkeypatch, Replacements, "perform", lambda: other.replace([gone]))

    assert run(complete(store, "a")).told == {"a"}

    assert stored(run, store, "child") == [gone]
    assert run(store.parents(["child"], limit=9)) == [JobEdge("child", "a", COMPLETED)]


def test_children_in_lanes_are_woken_into_them(run, store):
    run(running(store, "a"))
    parked = run(wait(store, "a", lane="tenant=a", keys={"tenant": "a"}))

    assert run(complete(store, "a")).woken == {"sum"}

    assert stored(run, store, "child") == [lifecycle.woken(parked, now=LATER)]
    assert [it.lane for it in run(store.lane_counts(limit=9))] == ["tenant=a"]


def test_a_child_that_wakes_is_claimed_by_the_same_batch(run, store):
    run(running(store, "a"))
    run(wait(store, "a"))
    batch = run(completing(store, "a"))

    committed = run(store.commit(replace(batch, claims=[claim()])))

    assert [[it.id for it in jobs] for jobs in committed.claimed] == [["child"]]


@pytest.mark.parametrize("count", [inline_edges.MOST_PARENTS, inline_edges.MOST_PARENTS + 1])
def test_a_child_holds_few_parents_and_of_many_each_has_a_document(run, store, count):
    names = [f"p-{number:03}" for number in range(count)]
    run(store.insert([job(name, type="other") for name in names[1:]]))
    run(running(store, names[0]))
    run(wait(store, *names))

    is_apart = count > inline_edges.MOST_PARENTS
    assert run(store._connection.edges.count_documents({})) == (count if is_apart else 0)
    assert len(run(store.parents(["child"], limit=999))) == count
    assert run(complete(store, names[0])).told == (set() if is_apart else {names[0]})
    assert run(due(store)) == ([names[0]] if is_apart else [])


def test_edges_that_an_older_version_wrote_are_left_to_a_dispatcher(run, store):
    run(running(store, "a"))
    parked = run(wait(store, "a"))
    connection = store._connection
    run(connection.jobs.update_one({"_id": "child"}, {"$unset": {"after": True, "wakes": True}}))
    edge = {"_id": "child a", "child": "child", "parent": "a", "outcome": ""}
    run(connection.edges.insert_one(edge))

    assert run(complete(store, "a")).told == set()

    assert run(due(store)) == ["a"]
    assert run(store.dependents(["a"], limit=9)) == [JobEdge("child", "a")]
    run(store.commit(Batch(now=NOW, outcomes=[JobEdge("child", "a", COMPLETED)])))
    assert run(store.standings(["child"])) == {"child": {COMPLETED}}
    assert stored(run, store, "child") == [parked]
