"""Dependents are told by the commit that ends their parents, or those stay due.

A store MAY do so; those do that several dispatchers share.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, running
from conformance.store.telling import LATER, complete, due, wait
from shunter.model import lifecycle
from shunter.model.job import Callback, Status, When
from shunter.model.workflow import JobEdge, ParentOutcome
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
