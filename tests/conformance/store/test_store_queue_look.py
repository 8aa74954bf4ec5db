"""What is around a job in the queue: who goes before it, who has places; by index, however deep."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, jobs
from shunter.model import lifecycle
from shunter.model.job_limits import JobLimits, Limit
from shunter.store.search import LANE_DEEP, QueueLook

LIMITS = JobLimits(limit=Limit(2, by="tenant", total=3))


def laned(name, tenant, at=0.0, **changes):
    created = NOW + at
    keys = {"tenant": tenant}
    return job(name, created=created, keys=keys, lane=LIMITS.lane(keys), **changes)


def names(found):
    return [it.id for it in found]


def test_a_look_counts_and_lists_what_goes_before_a_job(run, store):
    given = jobs(12)
    first = job("first", created=NOW + 1.0, priority=1)
    elsewhere = job("elsewhere", created=NOW - 9.0, type="other")
    later = job("later", created=NOW - 9.0, wait_until=NOW + 60.0, not_before=NOW + 60.0)
    run(store.insert([*given, first, elsewhere, later]))

    look = run(store.queue_look(given[8], most=100, deep=3))

    assert look.ahead == 9
    assert names(look.before) == ["first", "job-0", "job-1"]
    assert (look.heads, look.held, look.total_held, look.holders) == ([], {}, 0, [])
    assert run(store.queue_look(given[8], most=5, deep=3)).ahead == 5
    assert run(store.queue_look(first, most=100, deep=3)) == QueueLook()


def test_jobs_of_one_rank_go_in_the_order_in_which_they_came(run, store):
    given = [job(f"same-{number}") for number in range(4)]
    run(store.insert(given))

    look = run(store.queue_look(given[2], most=100, deep=10))

    assert (look.ahead, names(look.before)) == (2, ["same-0", "same-1"])


def test_a_look_into_a_lane_sees_its_own_jobs_the_fronts_of_others_and_who_has_places(run, store):
    waiting = [laned(f"a-{number}", "a", number / 100) for number in range(6)]
    others = [laned(f"b-{number}", "b", number / 100 - 5) for number in range(LANE_DEEP + 2)]
    run(store.insert([*waiting, *others, laned("c-0", "c", -7.0)]))
    taken = run(store.claim(replace(claim(limit=10), limits=LIMITS)))
    assert names(taken) == ["c-0", "b-0", "b-1"]

    look = run(store.queue_look(waiting[4], most=100, deep=3))

    assert look.ahead == 4
    assert names(look.before) == ["a-0", "a-1", "a-2"]
    assert names(look.heads) == [f"b-{number}" for number in range(2, 2 + LANE_DEEP)]
    assert look.held == {"tenant=b": 2, "tenant=c": 1}
    assert look.total_held == 3
    assert sorted(names(look.holders)) == ["b-0", "b-1", "c-0"]
    of_b = run(store.queue_look(others[5], most=100, deep=2))
    assert sorted(names(of_b.holders)) == ["b-0", "b-1"]
    assert names(of_b.heads) == [f"a-{number}" for number in range(LANE_DEEP)]


def test_a_lane_whose_name_begins_like_another_holds_nothing_of_it(run, store):
    short, long = laned("short", "a"), laned("long", "a 1")
    run(store.insert([short, long]))
    run(store.claim(replace(claim(limit=10), limits=LIMITS)))
    waiting = laned("waiting", "a", 1.0)
    run(store.insert([waiting]))

    look = run(store.queue_look(waiting, most=100, deep=10))

    assert look.held == {"tenant=a": 1, "tenant=a 1": 1}


@pytest.mark.parametrize("status", ["parked", "claimed"])
def test_a_job_that_is_not_in_the_queue_is_compared_by_its_rank(run, store, status):
    given = jobs(3)
    run(store.insert(given))
    [first] = run(store.claim(claim(limit=1)))
    if status == "parked":
        started = lifecycle.started(first, lifecycle.WorkerSlot("w-1"), now=NOW)
        parked = lifecycle.parked(started, started.attempt, now=NOW)
        assert run(store.replace([started])) == [True]
        assert run(store.replace([parked])) == [True]
        first = parked

    assert run(store.queue_look(first, most=100, deep=10)).ahead == 0
    assert run(store.queue_look(given[2], most=100, deep=10)).ahead == 1
