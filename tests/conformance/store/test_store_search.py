"""Searches for people: pages of jobs that cost the same however many there are, and depths."""

from __future__ import annotations

import time

import pytest

from conformance.store.given import NOW, claim, ended, failure, job, jobs, running
from shunter.model import lifecycle
from shunter.model.job import Status
from shunter.model.presence import Presence
from shunter.model.queue_order import rank
from shunter.store.search import COUNTED_OF_A_RUN, JobSearch, QueueDepth, RunSearch, RunSummary

DAY = 86400.0


def all_of(run, store, /, **wanted):
    """The ids on all pages of a search, and how many pages there were."""
    pages, after = [], None
    while len(pages) < 50:
        seen = run(store.search(JobSearch(after=after, **wanted)))
        pages.append([it.id for it in seen.jobs])
        after = seen.next
        if after is None:
            break
    return [name for page in pages for name in page], len(pages)


def failed(run, store, name, message, **changes):
    started = run(running(store, name, **changes))
    over = lifecycle.failed(started, started.attempt, failure(message), now=NOW, jitter=0.0)
    assert run(store.replace([over])) == [True]


def test_a_search_goes_through_all_jobs_newest_first(run, store):
    given = jobs(25)
    run(store.insert(given))

    assert all_of(run, store, limit=10) == ([it.id for it in reversed(given)], 3)


def test_a_search_for_what_is_rare_stops_and_says_how_far_it_looked(run, store):
    run(store.insert([job("rare", type="rare")]))
    run(store.insert(jobs(30)))

    seen = run(store.search(JobSearch(type="rare", most=10)))

    assert seen.jobs == []
    assert seen.next is not None
    assert seen.until == pytest.approx(NOW + 0.02)
    assert all_of(run, store, type="rare", most=10)[0] == ["rare"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"text": "NO ROUTE"}, ["lost"]),
        ({"text": "exception: no"}, ["lost"]),
        ({"text": "100% [x]"}, ["odd"]),
        ({"status": Status.FAILED}, ["odd", "lost"]),
        ({"status": Status.COMPLETED}, ["done"]),
        ({"status": Status.IN_PROGRESS}, ["busy"]),
        ({"worker_id": "w-2"}, ["busy", "odd"]),
        ({"type": "type-of-odd"}, ["odd"]),
        ({"workflow": "nightly"}, ["done"]),
        ({"status": Status.COMPLETED, "text": "route"}, []),
    ],
)
def test_a_search_finds_by_what_is_said_of_jobs(run, store, asked, found):
    run(ended(store, "done", workflow="nightly"))
    failed(run, store, "lost", "No route to host")
    failed(run, store, "odd", "100% [x] .* \\", on="w-2")
    run(running(store, "busy", on="w-2"))

    assert all_of(run, store, **asked)[0] == found


def test_jobs_are_found_by_their_run_and_by_their_ids(run, store):
    run(store.insert([job(f"job-{n}", run="r-1" if n % 2 else "r-2") for n in range(6)]))
    run(store.insert([job("later", run="r-1", wait_until=NOW + DAY), job("none")]))

    assert all_of(run, store, run="r-1") == (["later", "job-5", "job-3", "job-1"], 1)
    assert all_of(run, store, run="r-1", limit=2)[0] == ["later", "job-5", "job-3", "job-1"]
    assert all_of(run, store, run="r-1", most=1)[0] == ["later", "job-5", "job-3", "job-1"]
    assert all_of(run, store, run="r-1", status=Status.FAILED)[0] == []
    queued = {"run": "r-1", "status": Status.QUEUED}
    assert all_of(run, store, **queued)[0] == ["job-5", "job-3", "job-1"]
    assert all_of(run, store, **queued, is_delayed=True)[0] == ["later"]
    assert all_of(run, store, ids=("job-2", "none", "unknown"))[0] == ["none", "job-2"]
    assert all_of(run, store, ids=("job-2", "job-3"), run="r-1")[0] == ["job-3"]


def test_jobs_that_wait_for_others_are_listed_newest_first_over_all_types(run, store):
    waiting = [
        job(f"job-{n}", type=f"type-{n % 2}", status=Status.WAITING, created=NOW + n)
        for n in range(5)
    ]
    run(store.insert([*waiting, job("ready")]))
    newest_first = [it.id for it in reversed(waiting)]

    assert all_of(run, store, status=Status.WAITING) == (newest_first, 1)
    assert all_of(run, store, status=Status.WAITING, limit=2)[0] == newest_first
    assert all_of(run, store, status=Status.WAITING, type="type-1")[0] == ["job-3", "job-1"]


def test_the_queue_is_listed_in_its_order_over_all_types(run, store):
    late, early = job("late", created=NOW + 2), job("early", type="b", created=NOW)
    urgent = job("urgent", type="c", created=NOW + 3, priority=1)
    run(store.insert([late, early, urgent]))
    run(store.insert([job("later", wait_until=NOW + DAY), job("soon", wait_until=NOW + 60)]))

    in_order = [it.id for it in sorted([late, early, urgent], key=rank)]
    assert all_of(run, store, status=Status.QUEUED) == (in_order, 1)
    assert all_of(run, store, status=Status.QUEUED, limit=1)[0] == in_order
    assert all_of(run, store, status=Status.QUEUED, type="b")[0] == ["early"]
    delayed = {"status": Status.QUEUED, "is_delayed": True}
    assert all_of(run, store, **delayed) == (["soon", "later"], 1)
    assert all_of(run, store, **delayed, limit=1)[0] == ["soon", "later"]


def test_jobs_are_found_by_their_unique_key_and_by_how_it_begins(run, store):
    run(store.insert([job(f"tick-{n}", unique_key=f"schedule/backup/{n}") for n in range(5)]))
    run(store.insert([job("other", unique_key="schedule/backup2/1"), job("none")]))

    assert all_of(run, store, key="schedule/backup/3") == (["tick-3"], 1)
    newest_first = [f"tick-{n}" for n in (4, 3, 2, 1, 0)]
    assert all_of(run, store, key_prefix="schedule/backup/")[0] == newest_first
    assert all_of(run, store, key_prefix="schedule/backup/", limit=2)[0] == newest_first


def test_jobs_of_another_namespace_are_as_good_as_not_there(run, store):
    run(store.insert([job("ours", namespace="a", unique_key="k"), job("theirs", namespace="b")]))
    run(store.insert([job("nobodys")]))

    assert all_of(run, store, namespace="a")[0] == ["ours"]
    assert all_of(run, store, namespace="")[0] == ["nobodys"]
    assert all_of(run, store, namespace="b", key="k")[0] == []
    assert all_of(run, store, namespace="a", status=Status.QUEUED)[0] == ["ours"]


def test_a_search_begins_and_ends_at_a_time(run, store):
    now = time.time()
    given = [job(f"job-{n}", created=now - 100 + n, updated=now) for n in range(10)]
    run(store.insert(given))

    assert all_of(run, store, created_until=now - 97)[0] == ["job-2", "job-1", "job-0"]
    assert all_of(run, store, created_from=now - 92)[0] == ["job-9", "job-8"]


def test_depths_count_what_has_not_ended_and_no_further_than_asked(run, store):
    run(ended(store, "done"))
    run(running(store, "busy"))
    run(store.insert([job("claimed", type="c")]))
    run(store.claim(claim("c")))
    run(store.insert(jobs(12)))
    run(store.insert([job("later", type="late", wait_until=NOW + 60)]))
    run(
        store.insert(
            [
                job(f"p-{n}", type=f"parks-{n % 2}", status=Status.WAITING)
                for n in (0, 2, 4, 6, 8, 1, 3)
            ]
        )
    )

    assert run(store.depths(most=10)) == [
        QueueDepth(type="c", running=1),
        QueueDepth(type="late", delayed=1),
        QueueDepth(type="parks-0", parked=5),
        QueueDepth(type="parks-1", parked=2),
        QueueDepth(type="sum", waiting=10, oldest=NOW),
        QueueDepth(type="type-of-busy", running=1),
    ]


def test_jobs_in_lanes_are_part_of_the_queue(run, store):
    run(store.insert([job("a", lane="x"), job("b", lane="y", created=NOW + 1)]))
    run(store.insert([job("c", created=NOW + 2)]))

    assert all_of(run, store, status=Status.QUEUED, limit=2)[0] == ["a", "b", "c"]
    assert run(store.depths(most=100)) == [QueueDepth(type="sum", waiting=3, oldest=NOW)]


def test_who_was_here_is_read_without_being_here_oneself(run, store):
    here = [Presence(dispatcher_id=it, clock=NOW, host="h", uptime=1.0) for it in ("d-2", "d-1")]
    for presence in here:
        run(store.meet(presence))

    assert run(store.presences()) == here[::-1]


def runs_of(run, store, **wanted):
    """The runs on all pages of a list, and how many pages there were."""
    pages, after = [], None
    while len(pages) < 50:
        seen = run(store.runs(RunSearch(after=after, **wanted)))
        pages.append(seen.runs)
        after = seen.next
        if after is None:
            break
    return [it for page in pages for it in page], len(pages)


def test_runs_are_listed_newest_first_with_how_their_jobs_stand(run, store):
    run(ended(store, "a", run="r-1", workflow="etl", created=NOW - 5))
    run(ended(store, "b", run="r-1", workflow="etl", at=NOW + 7))
    run(ended(store, "c", run="r-2", workflow="etl"))
    run(store.insert([job("d", run="r-2"), job("e", run="r-2"), job("f", run="r-3")]))
    run(store.insert([job("alone", workflow="etl")]))

    found, pages = runs_of(run, store)

    done, queued = Status.COMPLETED, Status.QUEUED
    assert found == [
        RunSummary(id="r-3", workflow=None, created=NOW, counts={queued: 1}),
        RunSummary(id="r-2", workflow="etl", created=NOW, counts={done: 1, queued: 2}),
        RunSummary(id="r-1", workflow="etl", created=NOW - 5, counts={done: 2}, ended=NOW + 7),
    ]
    assert pages == 1
    assert runs_of(run, store, limit=1) == (found, 3)
    assert runs_of(run, store, most=2) == (found, 2)
    assert runs_of(run, store, workflow="etl") == (found[1:], 1)


def test_runs_of_another_namespace_are_as_good_as_not_there(run, store):
    mine, theirs = job("mine", run="shared", namespace="a"), job("b", run="shared", namespace="b")
    run(store.insert([theirs, mine, job("c", run="theirs", namespace="b"), job("d", run="open")]))

    assert [it.id for it in runs_of(run, store, namespace="a")[0]] == ["shared"]
    assert runs_of(run, store, namespace="a")[0][0].counts == {Status.QUEUED: 1}
    assert [it.id for it in runs_of(run, store, namespace="")[0]] == ["open"]


def test_of_a_large_run_the_first_jobs_are_counted(run, store):
    run(store.insert(jobs(COUNTED_OF_A_RUN + 1, run="large")))
    run(store.insert(jobs(COUNTED_OF_A_RUN, "less", run="larger")))

    assert [(sum(it.counts.values()), it.is_cut) for it in runs_of(run, store)[0]] == [
        (COUNTED_OF_A_RUN, False),
        (COUNTED_OF_A_RUN, True),
    ]
