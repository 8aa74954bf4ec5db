"""Dependents are told by the commit that ends their parents, or those stay due.

A store MAY do so; those do that several dispatchers share.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, running
from conformance.store.telling import LATER, complete, completing, due, wait
from shunter.model import lifecycle
from shunter.model.job import Callback, Status, When
from shunter.model.lifecycle import WorkerSlot
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome
from shunter.store.port import Batch


@pytest.fixture
def store(opened):
    return opened()


def test_a_child_is_woken_by_the_commit_that_ends_its_last_parent(run, store):
    run(running(store, "a"))
    run(running(store, "b"))
    parked = run(wait(store, "a", "b"))

    first = run(complete(store, "a"))
    assert (first.told, first.woken) == ({"a"}, set())
    assert run(store.get(["child"], payload=True)) == [parked]

    last = run(complete(store, "b"))
    assert (last.told, last.woken) == ({"b"}, {"sum"})
    woken = lifecycle.woken(parked, now=LATER)
    assert run(store.get(["child"], payload=True)) == [woken]
    assert run(due(store)) == []
    assert run(store.next_alarm()) is None
    assert not any(it.dependents for it in run(store.get(["a", "b"])))
    [taken] = run(store.claim(claim()))
    assert (taken.id, taken.status) == ("child", Status.DISPATCHING)
    assert run(store.get(["child"], payload=True)) == [taken]


@pytest.mark.parametrize(
    "changes",
    [
        {"when": When.ANY_FAILED},
        {"not_before": NOW + 60},
        {"place_within": 9.0},
    ],
)
def test_a_child_that_needs_more_than_to_be_queued_leaves_its_parent_due(run, store, changes):
    run(running(store, "a"))
    parked = run(wait(store, "a", **changes))

    assert run(complete(store, "a")).told == set()

    assert run(due(store)) == ["a"]
    assert run(store.get(["a"]))[0].dependents
    assert run(store.get(["child"], payload=True)) == [parked]


def test_a_child_of_which_another_parent_failed_is_left_to_a_dispatcher(run, store):
    run(running(store, "a"))
    run(running(store, "b"))
    parked = run(wait(store, "a", "b", when=When.ALL_DONE))
    failed = JobEdge("child", "b", ParentOutcome.FAILED)
    run(store.commit(Batch(now=NOW, outcomes=[failed])))

    assert run(complete(store, "a")).told == set()

    assert run(due(store)) == ["a"]
    assert run(store.get(["child"], payload=True)) == [parked]


def test_no_more_edges_are_told_than_asked_for(run, store):
    run(running(store, "a"))
    run(running(store, "b"))
    run(wait(store, "a", "b"))

    assert run(complete(store, "a", "b", tells=1)).told == {"a"}

    assert run(due(store)) == ["b"]
    assert run(store.standings(["child"]))["child"] == {"c", ""}


def test_a_parent_whose_end_is_refused_tells_nobody(run, store):
    run(running(store, "a"))
    parked = run(wait(store, "a"))
    [held] = run(store.get(["a"]))
    done = lifecycle.completed(held, held.attempt, result=b"\xc0", now=LATER)
    stale = replace(done, revision=done.revision + 1)

    committed = run(store.commit(Batch(now=LATER, replacements=[stale], tells=10)))

    assert (committed.replaced, committed.told) == ([False], set())
    assert run(store.standings(["child"])) == {"child": {ParentOutcome.PENDING}}
    assert run(store.get(["child"], payload=True)) == [parked]


def test_the_callback_of_a_told_parent_is_due_at_once(run, store):
    run(running(store, "a", callback=Callback("http://127.0.0.1/done")))
    run(wait(store, "a"))

    assert run(complete(store, "a")).told == {"a"}

    assert [it.id for it in run(store.due_callbacks(now=LATER, limit=9))] == ["a"]


async def fan(store, *names, created=NOW, **changes):
    """Let jobs wait for a parent that runs, a millisecond apart."""
    if await store.get(["root"]) == [None]:
        await running(store, "root")
    parked = [
        job(
            name,
            **(
                {"status": Status.WAITING, "when": When.ALL_OK, "created": created + at / 1000}
                | changes
            ),
        )
        for at, name in enumerate(names)
    ]
    edges = tuple(JobEdge(name, "root") for name in names)
    await store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=tuple(parked), edges=edges)]))
    return parked


async def complete_and_claim(store, *wanted, may_hold=True):
    done = await completing(store, "root")
    return await store.commit(replace(done, claims=wanted, may_hold=may_hold))


def on(worker, asked):
    return replace(asked, slots=(WorkerSlot(worker),) * asked.limit)


def started(parked, asked):
    woken = replace(lifecycle.woken(parked, now=asked.now), revision=parked.revision)
    mine = lifecycle.claimed(woken, dispatcher_id=asked.dispatcher_id, now=asked.now)
    return lifecycle.started_at_once(replace(mine, revision=0), asked.slots[0])


@pytest.mark.parametrize("may_hold", [True, False])
def test_a_child_may_be_started_by_the_commit_that_ends_its_last_parent(run, store, may_hold):
    [parked] = run(fan(store, "child"))
    asked = on("w-2", claim(now=LATER))

    [[taken]] = run(complete_and_claim(store, asked, may_hold=may_hold)).claimed

    assert replace(taken, revision=0) == started(parked, asked)
    assert run(store.get(["child"], payload=True)) == [taken]
    assert run(store.standings(["child"])) == {"child": {ParentOutcome.COMPLETED}}
    assert [(it.status, it.count) for it in run(store.backlog(is_ended=False))] == [
        (Status.IN_PROGRESS, 1)
    ]
    assert run(due(store)) == []


@pytest.mark.parametrize("may_hold", [True, False])
def test_children_are_claimed_in_the_order_of_the_queue(run, store, may_hold):
    run(fan(store, "second", "fourth", "fifth"))
    run(store.insert([job("first", created=NOW - 1), job("third", created=NOW + 0.0005)]))
    done = run(completing(store, "root"))
    run(store.commit(replace(done, claims=[on("w-2", claim(limit=1))], may_hold=may_hold)))

    order = [run(store.claim(claim(limit=2))), run(store.claim(claim(limit=9)))]

    started = [it.id for it in run(store.held_by(["w-2"]))]
    assert started + [it.id for taken in order for it in taken] == [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
    ]


def test_each_type_has_a_turn_before_children_of_one_have_a_second(run, store):
    run(fan(store, "sum-1", "sum-2", "sum-3"))
    run(fan(store, "mean-1", created=NOW + 60, type="mean"))
    run(store.insert([job("max-1", type="max", created=NOW + 90)]))

    asked = claim("sum", "mean", "max", limit=4)
    [taken] = run(complete_and_claim(store, asked)).claimed

    assert {it.id for it in taken} == {"sum-1", "sum-2", "mean-1", "max-1"}


def test_a_child_that_no_claim_took_is_queued_where_others_may_want_it(run, store):
    [_, parked] = run(fan(store, "first", "second"))

    committed = run(complete_and_claim(store, claim(limit=1), may_hold=False))

    assert (committed.told, committed.woken) == ({"root"}, {"sum"})
    assert run(store.get(["second"], payload=True)) == [lifecycle.woken(parked, now=LATER)]


def test_claims_find_a_child_that_was_woken_while_nobody_claimed(run, store):
    run(fan(store, "child", created=NOW + 5))
    run(complete_and_claim(store))
    run(store.insert([job("younger", created=NOW + 9)]))

    assert [it.id for it in run(store.claim(claim(limit=1)))] == ["child"]
    assert [it.id for it in run(store.claim(claim()))] == ["younger"]
