"""The three claims that everything stands on, tried with any order of events.

Two claimants never both win, a stale attempt never writes, final states stay final. Several
dispatchers act at once on what they last saw, however old that is; a model that knows only the
answers checks each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conformance.store.given import NOW, failure, job
from shunter.errors import JobError
from shunter.model import lifecycle
from shunter.model.job import Job
from shunter.model.lifecycle import WorkerSlot
from shunter.store.port import Claim

EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
worlds = count()

STEPS: dict[str, Callable[[Job, float], Job]] = {
    "start": lambda it, now: lifecycle.started(it, WorkerSlot("w"), now=now),
    "release": lambda it, now: lifecycle.released(it, now=now),
    "complete": lambda it, now: lifecycle.completed(it, it.attempt, result=b"\x01", now=now),
    "fail": lambda it, now: lifecycle.failed(it, it.attempt, failure(), now=now, jitter=0.0),
    "lose": lambda it, now: lifecycle.lost(
        it, it.attempt, "gone", now=now, jitter=0.0, max_losses=9
    ),
    "come due": lambda it, now: lifecycle.came_due(it, now=now),
    "cancel": lambda it, now: lifecycle.cancelled(it, now=now, stoppable=False),
}

JOBS, DISPATCHERS = 4, 3
claims = st.tuples(
    st.just("claim"), st.integers(0, DISPATCHERS - 1), st.integers(1, JOBS), st.just(0)
)
steps = st.tuples(
    st.sampled_from(["look", *STEPS]),
    st.integers(0, DISPATCHERS - 1),
    st.integers(0, JOBS - 1),
    st.integers(0, 3),
)
turns = st.lists(st.lists(st.one_of(claims, steps), min_size=1, max_size=6), max_size=20)


@EXAMPLES
@given(turns=turns)
def test_whatever_happens_at_once_every_revision_has_one_author(run, store, turns):
    run(_play(store, turns, world=next(worlds)))


async def _play(store, turns, world):
    """Play the turns; actions of one turn are under way at the same time."""
    kind = f"kind-{world}"
    fresh = [job(f"{world}-{at}", type=kind, payload=None) for at in range(JOBS)]
    await store.insert(fresh)
    stories = {it.id: [it] for it in fresh}  # what the store is known to have held, in order
    seen = {(who, it.id): [it] for who in range(DISPATCHERS) for it in fresh}

    for number, turn in enumerate(turns):
        now = NOW + number
        calls = [_act(store, kind, now, action, seen) for action in turn]
        for who, won in await asyncio.gather(*calls):
            for it in won:
                before = stories[it.id]
                assert all(it.revision != other.revision for other in before), "two authors"
                assert not any(other.status.is_final for other in before), "written after the end"
                before.append(it)
                before.sort(key=lambda entry: entry.revision)
                seen[who, it.id].append(it)

    for it in await store.get([it.id for it in fresh]):
        story = stories[it.id]
        assert [entry.revision for entry in story] == list(range(len(story))), "a write is missing"
        assert it == story[-1]


async def _act(store, kind, now, action, seen):
    """One dispatcher acts on what it saw `age` versions ago; return what it believes it wrote."""
    what, who, number, age = action
    versions = list(seen.values())[who * JOBS + number % JOBS]
    if what == "claim":
        request = Claim(
            dispatcher_id=f"d-{who}", types=(kind,), limit=number, now=now, expiry=now + 5
        )
        return who, await store.claim(request)
    if what == "look":
        versions += await store.get([versions[0].id])
        return who, []
    basis = versions[-min(age + 1, len(versions))]
    try:
        after = STEPS[what](basis, now)
    except JobError:
        return who, []
    [is_written] = await store.replace([replace(after, log=f"d-{who}")])
    return who, [replace(after, log=f"d-{who}")] if is_written else []


@EXAMPLES
@given(limits=st.lists(st.integers(1, 9), min_size=2, max_size=8), size=st.integers(0, 30))
def test_two_claimants_never_both_win(run, store, limits, size):
    kind = f"kind-{next(worlds)}"
    given_jobs = [job(f"{kind}-{number}", type=kind) for number in range(size)]

    async def race():
        await store.insert(given_jobs)
        requests = [
            Claim(dispatcher_id=f"d-{who}", types=(kind,), limit=limit, now=NOW, expiry=NOW + 5)
            for who, limit in enumerate(limits)
        ]
        return await asyncio.gather(*(store.claim(request) for request in requests))

    parts = run(race())

    taken = [it.id for part in parts for it in part]
    assert len(taken) == len(set(taken)) == min(sum(limits), size)
    for who, part in enumerate(parts):
        assert all(it.dispatcher.id == f"d-{who}" for it in part)
        assert len(part) <= limits[who]


@EXAMPLES
@given(priorities=st.lists(st.integers(-3, 3), max_size=25), limit=st.integers(1, 25))
def test_the_highest_priority_leaves_first_and_equals_in_order(run, store, priorities, limit):
    kind = f"kind-{next(worlds)}"
    given_jobs = [
        job(f"{kind}-{at:02}", type=kind, priority=priority)
        for at, priority in enumerate(priorities)
    ]
    request = Claim(dispatcher_id="d", types=(kind,), limit=limit, now=NOW, expiry=NOW + 5)
    run(store.insert(given_jobs))

    taken = run(store.claim(request))

    expected = sorted(given_jobs, key=lambda it: (-it.priority, it.id))[:limit]
    assert [it.id for it in taken] == [it.id for it in expected]
