"""Dependents are told by the commit that ends their parents, or those stay due."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, running
from shunter.model import lifecycle
from shunter.model.job import Callback, Status, When
from shunter.model.lifecycle import WorkerSlot
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome
from shunter.store.port import Batch

LATER = NOW + 5


def wait(run, store, *parents, **changes):
    """Let a job wait for these."""
    child = job("child", **({"status": Status.WAITING, "when": When.ALL_OK} | changes))
    edges = tuple(JobEdge("child", name) for name in parents)
    run(store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=(child,), edges=edges)])))
    return child


def complete(run, store, *names, tells=10):
    """Complete jobs in progress as they are stored."""
    held = run(store.get(names))
    done = [lifecycle.completed(it, it.attempt, result=b"\xc0", now=LATER) for it in held]
    return run(store.commit(Batch(now=LATER, replacements=done, tells=tells)))


def due(run, store):
    return [it.id for it in run(store.due_dependents(limit=9))]


def test_a_child_is_woken_by_the_commit_that_ends_its_last_parent(run, store):
    run(running(store, "a"))
    run(running(store, "b"))
    parked = wait(run, store, "a", "b")

    first = complete(run, store, "a")
    assert (first.told, first.woken) == ({"a"}, set())
    assert run(store.get(["child"], payload=True)) == [parked]

    last = complete(run, store, "b")
    assert (last.told, last.woken) == ({"b"}, {"sum"})
    woken = lifecycle.woken(parked, now=LATER)
    assert run(store.get(["child"], payload=True)) == [woken]
    assert due(run, store) == []
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
    parked = wait(run, store, "a", **changes)

    assert complete(run, store, "a").told == set()

    assert due(run, store) == ["a"]
    assert run(store.get(["a"]))[0].dependents
    assert run(store.get(["child"], payload=True)) == [parked]


def test_a_child_of_which_another_parent_failed_is_left_to_a_dispatcher(run, store):
    run(running(store, "a"))
    run(running(store, "b"))
    parked = wait(run, store, "a", "b", when=When.ALL_DONE)
    failed = JobEdge("child", "b", ParentOutcome.FAILED)
    run(store.commit(Batch(now=NOW, outcomes=[failed])))

    assert complete(run, store, "a").told == set()

    assert due(run, store) == ["a"]
    assert run(store.get(["child"], payload=True)) == [parked]


def test_no_more_edges_are_told_than_asked_for(run, store):
    run(running(store, "a"))
    run(running(store, "b"))
    wait(run, store, "a", "b")

    assert complete(run, store, "a", "b", tells=1).told == {"a"}

    assert due(run, store) == ["b"]
    assert run(store.standings(["child"]))["child"] == {"c", ""}


def test_a_parent_whose_end_is_refused_tells_nobody(run, store):
    run(running(store, "a"))
    parked = wait(run, store, "a")
    [held] = run(store.get(["a"]))
    done = lifecycle.completed(held, held.attempt, result=b"\xc0", now=LATER)
    stale = replace(done, revision=done.revision + 1)

    committed = run(store.commit(Batch(now=LATER, replacements=[stale], tells=10)))

    assert (committed.replaced, committed.told) == ([False], set())
    assert run(store.standings(["child"])) == {"child": {ParentOutcome.PENDING}}
    assert run(store.get(["child"], payload=True)) == [parked]


def test_the_callback_of_a_told_parent_is_due_at_once(run, store):
    run(running(store, "a", callback=Callback("http://127.0.0.1/done")))
    wait(run, store, "a")

    assert complete(run, store, "a").told == {"a"}

    assert [it.id for it in run(store.due_callbacks(now=LATER, limit=9))] == ["a"]


def test_jobs_that_can_run_together_lie_together_and_are_claimed_as_they_were_submitted(run, store):
    names = ["a1", "a2", "b1", "b2"]
    jobs = [
        job(name, created=NOW + at * 1e-6, dependents=True)
        if name.endswith("1")
        else job(name, created=NOW + at * 1e-6, status=Status.WAITING, when=When.ALL_OK)
        for at, name in enumerate(names)
    ]
    edges = (JobEdge("a2", "a1"), JobEdge("b2", "b1"))
    run(store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=tuple(jobs), edges=edges)])))

    rows = run(store._read(lambda it: it.execute("SELECT id FROM jobs ORDER BY seq").fetchall()))
    assert [name for (name,) in rows] == ["a1", "b1", "a2", "b2"]

    [first] = run(store.claim(claim(limit=1)))
    run(store.replace([lifecycle.started(first, WorkerSlot("w-1"), now=NOW)]))
    complete(run, store, "a1")
    assert [it.id for it in run(store.claim(claim(limit=9)))] == ["a2", "b1"]


def test_a_job_that_an_earlier_version_has_woken_is_read_as_such(run, store):
    run(running(store, "a"))
    parked = wait(run, store, "a")
    complete(run, store, "a")
    older = f'{{"id":"","date":{LATER},"expiry":{LATER}}}'

    def rewrite(connection):
        connection.execute("UPDATE jobs SET claim = ? WHERE id = 'child'", (older,))

    run(store._write(rewrite))

    woken = lifecycle.woken(parked, now=LATER)
    assert run(store.get(["child"], payload=True)) == [woken]
