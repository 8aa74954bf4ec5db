"""Compare and swap: one write wins, a stale one changes nothing, and the end is the end."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, ended, job, jobs, running
from shunter.model import lifecycle
from shunter.model.job import FINAL, Status
from shunter.model.lifecycle import WorkerSlot


def test_the_next_revision_is_written(run, store):
    started = run(running(store, "one"))

    done = lifecycle.completed(started, 1, result=b"\x2a", log="hello", now=NOW + 1)

    assert run(store.replace([done])) == [True]
    assert run(store.get(["one"])) == [replace(done, payload=None)]


@pytest.mark.parametrize("offset", [-2, -1, 1, 7])
def test_any_other_revision_is_refused(run, store, offset):
    started = run(running(store, "one"))
    before = run(store.get(["one"], payload=True))

    other = replace(started, revision=started.revision + 1 + offset, log="stale")

    assert run(store.replace([other])) == [False]
    assert run(store.get(["one"], payload=True)) == before


def test_an_unknown_job_is_refused(run, store):
    assert run(store.replace([job("nobody", revision=1)])) == [False]
    assert run(store.get(["nobody"])) == [None]


def test_a_payload_is_never_changed(run, store):
    started = run(running(store, "one"))

    run(
        store.replace(
            [
                lifecycle.progressed(
                    replace(started, payload=b"other"), 1, done=1, total=None, now=NOW
                )
            ]
        )
    )

    [stored] = run(store.get(["one"], payload=True))
    assert stored.payload == started.payload
    assert stored.progress.done == 1


@pytest.mark.parametrize("final", sorted(FINAL))
@pytest.mark.parametrize("status", list(Status))
def test_a_final_job_stays_as_it_is(run, store, final, status):
    given = job("over", status=final, updated=NOW)
    run(store.insert([given]))

    after = replace(given, status=status, revision=1, log="changed")

    assert run(store.replace([after])) == [False]
    assert run(store.get(["over"], payload=True)) == [given]


def test_a_write_on_a_claim_that_was_put_back_is_refused(run, store):
    run(store.insert([job("one")]))
    [mine] = run(store.claim(claim(by="d-1")))
    run(store.replace([lifecycle.released(mine, now=NOW + 9)]))
    [theirs] = run(store.claim(claim(by="d-2")))

    late = lifecycle.started(mine, WorkerSlot("w-1"), now=NOW + 10)

    assert run(store.replace([late])) == [False]
    assert run(store.get(["one"], payload=True)) == [theirs]


def test_each_job_of_a_batch_is_judged_by_itself(run, store):
    run(store.insert(jobs(100)))
    claimed = run(store.claim(claim(limit=100)))
    released = [lifecycle.released(it, now=NOW) for it in claimed[::3]]
    assert all(run(store.replace(released)))

    started = [lifecycle.started(it, WorkerSlot("w"), now=NOW) for it in claimed]

    assert run(store.replace(started)) == [at % 3 != 0 for at in range(100)]
    held = {it.id for it in run(store.held_by(["w"]))}
    assert held == {it.id for at, it in enumerate(claimed) if at % 3}


def test_two_steps_of_one_job_fit_into_one_batch(run, store):
    started = run(running(store, "one"))
    step = lifecycle.progressed(started, 1, done=1, total=2, now=NOW)
    done = lifecycle.completed(step, 1, result=b"", now=NOW)

    assert run(store.replace([step, done, done])) == [True, True, False]
    assert run(store.get(["one"])) == [replace(done, payload=None)]


def test_of_writes_made_at_once_exactly_one_wins(run, store):
    started = run(running(store, "one"))
    rivals = [
        lifecycle.completed(started, 1, result=bytes([number]), now=NOW) for number in range(20)
    ]

    async def all_at_once():
        return await asyncio.gather(*(store.replace([rival]) for rival in rivals))

    answers = [answer for [answer] in run(all_at_once())]
    assert answers.count(True) == 1
    assert run(store.get(["one"])) == [replace(rivals[answers.index(True)], payload=None)]


def test_an_ended_job_leaves_queue_holder_and_alarms(run, store):
    done = run(ended(store, "one"))

    assert run(store.claim(claim(done.type))) == []
    assert run(store.held_by(["w-1"])) == []
    assert run(store.next_alarm()) is None
