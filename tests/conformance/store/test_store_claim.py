"""Claiming: who gets which job, in which order."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, jobs
from shunter.model import lifecycle
from shunter.model.job import Effects, Execution, Status
from shunter.model.lifecycle import WorkerSlot
from shunter.model.queue_order import PRIORITY_SPAN_SECONDS
from shunter.store.port import Claim


def test_a_claim_does_what_the_lifecycle_says(run, store):
    given = job("one", priority=2, unique_key="k")
    run(store.insert([given]))

    taken = run(store.claim(claim(by="d-9", now=NOW + 0.1)))

    expected = lifecycle.claimed(given, dispatcher_id="d-9", now=NOW + 0.1)
    assert taken == [expected]
    assert run(store.get(["one"], payload=True)) == [expected]


def test_jobs_of_one_priority_leave_first_in_first_out(run, store):
    given = jobs(50)
    run(store.insert(given[:20]))
    run(store.insert(given[20:]))

    first = run(store.claim(claim(limit=30)))
    rest = run(store.claim(claim(limit=30)))

    assert [it.id for it in (*first, *rest)] == [it.id for it in given]


def test_jobs_created_at_one_instant_leave_in_the_order_of_their_insertion(run, store):
    given = [job(f"{number:03}") for number in reversed(range(100))]
    run(store.insert(given))

    assert [it.id for it in run(store.claim(claim(limit=100)))] == [it.id for it in given]


def test_a_higher_priority_goes_first(run, store):
    run(store.insert([job("low", priority=-1), job("normal"), job("high", priority=5)]))

    assert [it.id for it in run(store.claim(claim()))] == ["high", "normal", "low"]


def test_a_job_that_waited_long_enough_overtakes_a_higher_priority(run, store):
    run(store.insert([job("new", priority=1, created=NOW + PRIORITY_SPAN_SECONDS + 1)]))
    run(store.insert([job("old")]))

    assert [it.id for it in run(store.claim(claim()))] == ["old", "new"]


def test_a_claim_merges_its_types_by_rank(run, store):
    given = jobs(30)
    kinds = ["a", "b", "c"]
    mixed = [replace(it, type=kinds[at % 3]) for at, it in enumerate(given)]
    run(store.insert(mixed[::-1]))

    taken = run(store.claim(claim("a", "b", "a", limit=12)))

    expected = [it.id for it in mixed if it.type != "c"]
    assert [it.id for it in taken] == expected[:12]


def test_a_type_that_fills_the_queue_leaves_others_their_turn(run, store):
    flood = [replace(it, type="flood") for it in jobs(50)]
    late = [job(f"late-{n}", type="late", created=NOW + 100.0 + n) for n in range(3)]
    run(store.insert([*flood, *late]))

    first = run(store.claim(claim("late", "flood", limit=1)))
    second = run(store.claim(claim("flood", "late", limit=1)))
    several = run(store.claim(claim("flood", "late", limit=4)))

    assert [it.id for it in (*first, *second)] == ["late-0", flood[0].id]
    assert [it.id for it in several] == [*(it.id for it in flood[1:4]), "late-1"]


def test_a_higher_priority_goes_before_another_types_turn(run, store):
    urgent = [job(f"urgent-{n}", type="urgent", priority=1) for n in range(3)]
    run(store.insert([job("old", type="plain", created=NOW - 100.0), *urgent]))

    taken = run(store.claim(claim("plain", "urgent", limit=3)))

    assert [it.id for it in taken] == [it.id for it in urgent]


def test_a_claim_may_name_a_thousand_types(run, store):
    types = tuple(f"kind-{number}" for number in range(1000))
    run(store.insert([job("first", type="kind-0"), job("last", type="kind-999")]))

    assert [it.id for it in run(store.claim(claim(*types)))] == ["first", "last"]


def test_a_claim_gets_nothing_of_other_types_or_without_types(run, store):
    run(store.insert([job("one")]))
    nothing = Claim(dispatcher_id="d", types=(), limit=5, now=NOW, expiry=NOW + 5)

    assert run(store.claim(claim("product"))) == []
    assert run(store.claim(nothing)) == []


def test_a_released_job_may_be_claimed_again_at_its_old_place(run, store):
    run(store.insert(jobs(3)))
    [first] = run(store.claim(claim(limit=1)))

    run(store.replace([lifecycle.released(first, now=NOW + 1)]))

    assert [it.id for it in run(store.claim(claim()))] == ["job-0", "job-1", "job-2"]


def test_a_waiting_job_is_claimed_only_after_it_came_due(run, store):
    waiting = job("later", not_before=NOW + 10, wait_until=NOW + 10)
    run(store.insert([waiting]))
    assert run(store.claim(claim(now=NOW + 20))) == []

    due = lifecycle.came_due(waiting, now=NOW + 20)
    run(store.replace([due]))

    assert [it.id for it in run(store.claim(claim(now=NOW + 20)))] == ["later"]


def test_a_cancelled_job_is_never_claimed(run, store):
    [cancelled, kept] = jobs(2)
    run(store.insert([cancelled, kept]))

    run(store.replace([lifecycle.cancelled(cancelled, now=NOW, stoppable=False)]))

    assert [it.id for it in run(store.claim(claim()))] == [kept.id]


def test_claims_made_at_once_share_no_job_and_leave_none(run, store):
    run(store.insert(jobs(300)))

    async def all_at_once():
        return await asyncio.gather(
            *(store.claim(claim(by=f"d-{number}", limit=7)) for number in range(60))
        )

    taken = [it for part in run(all_at_once()) for it in part]
    assert sorted(it.id for it in taken) == sorted(it.id for it in jobs(300))


def test_a_job_inserted_in_the_same_turn_is_there_for_the_claim_behind_it(run, store):
    async def together():
        return await asyncio.gather(store.insert([job("one")]), store.claim(claim()))

    _, taken = run(together())
    assert [it.id for it in taken] == ["one"]


def test_a_claim_with_slots_returns_its_jobs_started_on_them(run, store):
    run(store.insert(jobs(3)))
    once = WorkerSlot("w-1", at_most_once=frozenset({"sum"}))
    slots = (once, WorkerSlot("w-2", presumed_dead_after=60.0), WorkerSlot("w-1"))

    got = run(store.claim(replace(claim(limit=3), slots=slots)))

    assert [(it.id, it.execution.worker_id) for it in got] == [
        ("job-0", "w-1"),
        ("job-1", "w-2"),
        ("job-2", "w-1"),
    ]
    stored = run(store.get([it.id for it in got], payload=True))
    assert stored == got
    assert {(it.status, it.attempt) for it in got} == {(Status.IN_PROGRESS, 1)}
    assert [it.effects for it in got] == [Effects.AT_MOST_ONCE, None, None]
    assert [it.id for it in run(store.held_by(["w-1"]))] == ["job-0", "job-2"]


@pytest.mark.parametrize("workers", [1, 3, 12])
def test_what_a_claim_has_started_is_stored_as_the_lifecycle_says(run, store, workers):
    given = jobs(12, place_by=NOW + 60, place_within=60.0, version="1")
    timed = [replace(it, execution=Execution(timeout=9.0)) for it in given[8:]]
    given[8:] = timed
    run(store.insert(given))
    slots = [WorkerSlot(f"w-{at % workers}", expiry_grace=1.0, version="2") for at in range(12)]

    got = run(store.claim(replace(claim(limit=12, by="d-9"), slots=tuple(slots))))

    assert got == [
        lifecycle.started_at_once(lifecycle.claimed(it, dispatcher_id="d-9", now=NOW), slot)
        for it, slot in zip(given, slots, strict=True)
    ]
    assert run(store.get([it.id for it in got], payload=True)) == got
    due = run(store.alarms(now=NOW + 10.5, limit=99))
    assert sorted(it.id for it in due) == sorted(it.id for it in timed)
    assert run(store.overdue(now=NOW + 99, limit=99)) == []
    assert len(run(store.held_by(["w-0"]))) == 12 // workers
    ended = [lifecycle.completed(it, 1, result=b"\xc0", now=NOW + 1) for it in got]
    assert run(store.replace(ended)) == [True] * 12
    assert run(store.get([it.id for it in ended])) == [replace(it, payload=None) for it in ended]


def test_a_claim_with_more_slots_than_jobs_leaves_the_rest_empty(run, store):
    run(store.insert(jobs(1)))

    got = run(store.claim(replace(claim(limit=3), slots=(WorkerSlot("w-1"),) * 3)))

    assert [it.id for it in got] == ["job-0"]
    assert run(store.claim(claim())) == []


@pytest.mark.parametrize(("count", "size"), [(20, 100 << 10), (3, 2 << 20)])
def test_large_jobs_are_claimed_over_several_turns(run, store, count, size):
    payload = msgspec.msgpack.encode(bytes(size))
    run(store.insert(jobs(count, payload=payload)))
    slots = tuple(WorkerSlot("w-1", expiry_grace=1.0) for _ in range(count))
    request = replace(claim(limit=count), slots=slots, most_bytes=2 * size)

    names, sizes = [], []
    while taken := run(store.claim(request)):
        names += [it.id for it in taken]
        sizes.append(sum(len(it.payload) for it in taken))

    assert names == [it.id for it in jobs(count)]
    assert len(sizes) == -(-count // 2)
    assert max(sizes) < request.most_bytes + len(payload)


@pytest.mark.parametrize(("most_bytes", "counts"), [(1, [1, 1, 1]), (8, [2, 1]), (9, [3])])
def test_a_claim_ends_with_the_job_that_fills_it(run, store, most_bytes, counts):
    run(store.insert(jobs(3)))
    request = replace(claim(), most_bytes=most_bytes)

    assert [len(run(store.claim(request))) for _ in counts] == counts
    assert run(store.claim(request)) == []


def test_whose_turn_it_is_comes_first_also_where_bytes_are_short(run, store):
    run(store.insert([*jobs(3, "early", type="a"), job("late", type="b", created=NOW + 9)]))

    taken = run(store.claim(replace(claim("b", "a", limit=2), most_bytes=5)))

    assert "late" in [it.id for it in taken]
