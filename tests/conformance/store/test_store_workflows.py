"""Jobs that wait for jobs: graphs are there as a whole, edges learn outcomes, parents stay."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, ended, job, running
from shunter.errors import JobRefused, UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.job import Callback, Status, When
from shunter.model.scope import JobScope
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome
from shunter.store.port import Backlog, Batch, JobQuery

PENDING, COMPLETED, FAILED = ParentOutcome.PENDING, ParentOutcome.COMPLETED, ParentOutcome.FAILED


def parked(name, **changes):
    return job(name, status=Status.WAITING, when=When.ALL_OK, **changes)


def diamond(**changes):
    """One job, two that wait for it, one that waits for those."""
    return JobGraph(
        jobs=(
            job("top", dependents=True, **changes),
            parked("left", dependents=True, **changes),
            parked("right", dependents=True, **changes),
            parked("bottom", **changes),
        ),
        edges=(
            JobEdge("left", "top"),
            JobEdge("right", "top"),
            JobEdge("bottom", "left"),
            JobEdge("bottom", "right"),
        ),
    )


def plant(run, store, graph):
    [answer] = run(store.commit(Batch(now=NOW, graphs=[graph]))).graphs
    return answer


def note(run, store, *outcomes):
    run(store.commit(Batch(now=NOW, outcomes=outcomes)))


def stored(run, store, *names):
    return run(store.get(names, payload=True))


def everything(run, store):
    return [it.id for it in run(store.find(JobQuery(limit=50)))]


def test_a_graph_is_stored_with_its_edges_and_only_its_first_jobs_can_be_claimed(run, store):
    graph = diamond()

    assert plant(run, store, graph) == list(graph.jobs)

    assert stored(run, store, "top", "left", "right", "bottom") == list(graph.jobs)
    assert [it.id for it in run(store.claim(claim()))] == ["top"]
    assert run(store.dependents(["top", "left"], limit=9)) == [
        JobEdge("bottom", "left"),
        JobEdge("left", "top"),
        JobEdge("right", "top"),
    ]
    assert run(store.parents(["bottom"], limit=9)) == [
        JobEdge("bottom", "left"),
        JobEdge("bottom", "right"),
    ]


def test_a_graph_that_is_offered_again_is_answered_with_what_is_there(run, store):
    plant(run, store, diamond())
    [started] = run(store.claim(claim()))

    answer = plant(run, store, diamond())

    assert [(it.id, it.status) for it in answer] == [
        ("top", started.status),
        ("left", Status.WAITING),
        ("right", Status.WAITING),
        ("bottom", Status.WAITING),
    ]


@pytest.mark.parametrize("earlier", ["top", "bottom"])
def test_a_graph_with_an_id_that_is_taken_leaves_nothing_behind(run, store, earlier):
    run(store.insert([job(earlier, payload=b"\x01")]))

    answer = plant(run, store, diamond())

    assert isinstance(answer, UniqueKeyTaken)
    assert answer.field == "id"
    assert everything(run, store) == [earlier]
    assert run(store.dependents(["top", "left", "right"], limit=9)) == []


def test_a_graph_of_which_a_part_is_there_is_refused(run, store):
    run(store.insert([job("top", dependents=True)]))

    assert isinstance(plant(run, store, diamond()), JobRefused)
    assert everything(run, store) == ["top"]


def test_a_graph_that_waits_for_an_unknown_job_leaves_nothing_behind(run, store):
    graph = JobGraph(
        jobs=(job("free"), parked("late")), edges=(JobEdge("late", "free"), JobEdge("late", "gone"))
    )

    answer = plant(run, store, graph)

    assert isinstance(answer, JobRefused)
    assert (answer.job_id, answer.field) == ("late", "after")
    assert "gone" in str(answer)
    assert everything(run, store) == []
    assert run(store.parents(["late"], limit=9)) == []


def test_a_job_of_another_namespace_is_as_good_as_not_there(run, store):
    run(store.insert([job("theirs", namespace="them")]))
    graph = JobGraph(
        jobs=(parked("late", namespace="us"),),
        edges=(JobEdge("late", "theirs"),),
        scope=JobScope("us"),
    )

    answer = plant(run, store, graph)

    assert isinstance(answer, JobRefused)
    [theirs] = stored(run, store, "theirs")
    assert (theirs.revision, theirs.dependents) == (0, False)


def after_one(parent):
    return JobGraph(jobs=(parked("late"),), edges=(JobEdge("late", parent),))


def test_a_parent_under_way_learns_that_it_has_dependents_and_its_old_record_is_refused(run, store):
    before = run(running(store, "early"))

    plant(run, store, after_one("early"))

    [now] = run(store.get(["early"]))
    assert now == replace(before, payload=None, dependents=True, revision=before.revision + 1)
    done = lifecycle.completed(before, 1, result=b"\x01", now=NOW)
    assert run(store.replace([done])) == [False]
    done = lifecycle.completed(now, 1, result=b"\x01", now=NOW)
    assert run(store.replace([done])) == [True]
    assert run(store.due_dependents(limit=9)) == [replace(done, result=None)]


def test_a_claimed_parent_learns_it_too(run, store):
    run(store.insert([job("early")]))
    [taken] = run(store.claim(claim()))

    plant(run, store, after_one("early"))

    [now] = run(store.get(["early"]))
    assert now == replace(taken, payload=None, dependents=True, revision=taken.revision + 1)


def test_an_ended_parent_has_dependents_that_are_due_at_once(run, store):
    done = run(ended(store, "early"))
    assert run(store.due_dependents(limit=9)) == []

    plant(run, store, after_one("early"))

    [due] = run(store.due_dependents(limit=9))
    assert due == replace(
        done, payload=None, result=None, dependents=True, revision=done.revision + 1
    )
    assert run(store.next_alarm()) == 0.0


def test_a_parent_is_due_until_its_dependents_are_told_and_its_callback_only_then(run, store):
    hook = Callback("http://127.0.0.1/done")
    done = run(ended(store, "early", callback=hook, dependents=True))

    assert [it.id for it in run(store.due_dependents(limit=9))] == ["early"]
    assert run(store.due_callbacks(now=NOW, limit=9)) == []
    assert run(store.alarms(now=NOW, limit=9)) == []

    told = replace(done, dependents=False, revision=done.revision + 1)
    assert run(store.commit(Batch(now=NOW, deliveries=[told, told]))).delivered == [True, False]

    assert run(store.due_dependents(limit=9)) == []
    assert [it.id for it in run(store.due_callbacks(now=NOW, limit=9))] == ["early"]
    assert stored(run, store, "early") == [told]


def test_a_told_parent_without_a_callback_is_in_nobodys_way(run, store):
    done = run(ended(store, "early", dependents=True))
    told = replace(done, dependents=False, revision=done.revision + 1)

    run(store.commit(Batch(now=NOW, deliveries=[told])))

    assert run(store.next_alarm()) is None
    assert stored(run, store, "early") == [told]


def test_a_parent_to_which_another_dependent_came_is_not_told(run, store):
    done = run(ended(store, "early", dependents=True))
    plant(run, store, after_one("early"))

    told = replace(done, dependents=False, revision=done.revision + 1)
    assert run(store.commit(Batch(now=NOW, deliveries=[told]))).delivered == [False]

    assert [it.id for it in run(store.due_dependents(limit=9))] == ["early"]


def test_parents_at_any_revision_are_told_together_each_by_its_own(run, store):
    callback = Callback("http://127.0.0.1/done")
    for name in ("a", "b", "stale"):
        run(ended(store, name, dependents=True))
    run(ended(store, "called", dependents=True, callback=callback))
    first = [replace(it, revision=it.revision + 1) for it in stored(run, store, "b")]
    assert run(store.commit(Batch(now=NOW, deliveries=first))).delivered == [True]
    before = stored(run, store, "a", "b", "stale", "called")
    told = [replace(it, dependents=False, revision=it.revision + 1) for it in before]
    told[2] = replace(told[2], revision=told[2].revision + 1)

    batch = Batch(now=NOW, deliveries=told)
    assert run(store.commit(batch)).delivered == [True, True, False, True]

    after = stored(run, store, "a", "b", "stale", "called")
    assert after == [told[0], told[1], before[2], told[3]]
    assert [it.id for it in run(store.due_dependents(limit=9))] == ["stale"]


def test_outcomes_are_written_once_and_standings_say_which_there_are(run, store):
    plant(run, store, diamond())
    assert run(store.standings(["bottom", "left", "top"])) == {
        "bottom": {PENDING},
        "left": {PENDING},
        "top": frozenset(),
    }

    note(run, store, JobEdge("bottom", "left", COMPLETED))
    assert run(store.standings(["bottom"])) == {"bottom": {PENDING, COMPLETED}}

    note(run, store, JobEdge("bottom", "right", FAILED), JobEdge("bottom", "left", FAILED))
    assert run(store.standings(["bottom"])) == {"bottom": {FAILED, COMPLETED}}
    note(run, store, JobEdge("bottom", "stranger", FAILED))
    assert run(store.parents(["bottom"], limit=9)) == [
        JobEdge("bottom", "left", COMPLETED),
        JobEdge("bottom", "right", FAILED),
    ]


def test_edges_are_read_page_by_page(run, store):
    jobs = (job("a", dependents=True), job("b", dependents=True))
    kids = tuple(parked(f"kid-{number}") for number in range(5))
    edges = tuple(JobEdge(kid.id, parent.id) for kid in kids for parent in jobs)
    plant(run, store, JobGraph(jobs=(*jobs, *kids), edges=edges))

    found, after = [], None
    while page := run(store.dependents(["b", "a"], after=after, limit=3)):
        assert len(page) <= 3
        found += page
        after = page[-1]

    assert found == sorted(edges, key=lambda edge: (edge.parent, edge.child))
    assert run(store.parents(["kid-1"], limit=1)) == [JobEdge("kid-1", "a")]
    found, after = [], None
    while page := run(store.parents(["kid-3", "kid-1", "nobody"], after=after, limit=3)):
        assert len(page) <= 3
        found += page
        after = page[-1]
    assert found == [JobEdge(kid, parent) for kid in ("kid-1", "kid-3") for parent in "ab"]
    assert run(store.dependents(["a"], limit=0)) == []


def test_a_parked_job_may_wait_for_more_and_one_that_is_not_parked_may_not(run, store):
    plant(run, store, diamond())
    more = JobGraph(jobs=(job("other", dependents=True),), edges=(JobEdge("bottom", "other"),))

    assert plant(run, store, more) == list(more.jobs)

    [bottom] = run(store.get(["bottom"]))
    assert bottom.revision == 1, "who decides on what it waited for before is refused"
    assert len(run(store.parents(["bottom"], limit=9))) == 3
    late = JobGraph(jobs=(job("third", dependents=True),), edges=(JobEdge("top", "third"),))
    assert isinstance(plant(run, store, late), JobRefused)
    assert stored(run, store, "third") == [None]


def test_parked_jobs_are_counted_listed_and_cancelled(run, store):
    plant(run, store, diamond())

    assert run(store.backlog()) == [
        Backlog(type="sum", status=Status.QUEUED, count=1),
        Backlog(type="sum", status=Status.WAITING, count=3),
    ]
    waiting = run(store.find(JobQuery(status=Status.WAITING)))
    assert sorted(it.id for it in waiting) == ["bottom", "left", "right"]
    [bottom] = [it for it in waiting if it.id == "bottom"]
    gone = lifecycle.cancelled(bottom, now=NOW, stoppable=False)
    assert run(store.replace([gone])) == [True]
    assert run(store.oldest()) == {"sum": NOW}


def test_a_parked_job_that_is_woken_is_in_the_queue_and_one_with_an_alarm_is_found(run, store):
    run(store.insert([parked("sleeper", wait_until=NOW + 5)]))
    assert run(store.claim(claim())) == []
    assert run(store.next_alarm()) == NOW + 5

    [due] = run(store.alarms(now=NOW + 5, limit=9))
    assert run(store.replace([lifecycle.woken(due, now=NOW + 5)])) == [True]

    assert [it.id for it in run(store.claim(claim()))] == ["sleeper"]


def test_a_run_is_parked_and_leaves_its_places(run, store):
    busy = run(running(store, "busy"))

    asleep = lifecycle.parked(busy, busy.attempt, now=NOW, wait_until=NOW + 9)
    assert run(store.replace([asleep])) == [True]

    assert run(store.held_by(["w-1"])) == []
    assert stored(run, store, "busy") == [replace(asleep, payload=busy.payload)]


def test_jobs_of_a_run_are_listed_newest_first(run, store):
    run(store.insert([job("plain"), job("other", run="r-2")]))
    plant(run, store, diamond(run="r-1"))

    found = run(store.find(JobQuery(run="r-1", limit=3)))

    assert [it.id for it in found] == ["bottom", "right", "left"]
    rest = run(store.find(JobQuery(run="r-1", before="left")))
    assert [it.id for it in rest] == ["top"]


def test_a_parent_is_kept_until_its_dependents_have_ended(run, store):
    for name in ("early", "alone"):
        run(ended(store, name))
    plant(run, store, after_one("early"))
    [due] = run(store.due_dependents(limit=9))
    told = replace(due, dependents=False, revision=due.revision + 1)
    run(
        store.commit(
            Batch(now=NOW, deliveries=[told], outcomes=[JobEdge("late", "early", COMPLETED)])
        )
    )

    assert run(store.purge(ended_before=NOW + 1, limit=1)) == 1
    assert sorted(everything(run, store)) == ["early", "late"]
    assert run(store.purge(ended_before=NOW + 1, limit=9)) == 0

    [late] = run(store.get(["late"]))
    run(store.replace([lifecycle.cancelled(late, now=NOW, stoppable=False)]))
    assert run(store.purge(ended_before=NOW + 1, limit=9)) == 2
    assert everything(run, store) == []
    assert run(store.dependents(["early"], limit=9)) == []


def test_graphs_of_two_stores_on_one_parent_are_both_there(run, opened):
    first, second = opened(), opened()
    run(ended(first, "early"))
    graphs = [
        JobGraph(jobs=(parked(f"late-{number}"),), edges=(JobEdge(f"late-{number}", "early"),))
        for number in range(8)
    ]

    async def both():
        await asyncio.gather(
            *(
                store.commit(Batch(now=NOW, graphs=[graph]))
                for store, graph in zip([first, second] * 4, graphs, strict=True)
            )
        )

    run(both())

    assert len(run(first.dependents(["early"], limit=99))) == 8
    [early] = run(first.get(["early"]))
    assert early.dependents
