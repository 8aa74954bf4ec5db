"""Places on workers: no two jobs in progress have the same one, whoever starts them."""

from __future__ import annotations

import asyncio

import pytest

from conformance.store.given import NOW, claimed, placed
from shunter.model import lifecycle
from shunter.model.lifecycle import WorkerSlot


def started(job, place, on="w-1"):
    return lifecycle.started(job, WorkerSlot(on, place=place), now=NOW)


def test_a_place_that_is_taken_is_refused_and_nothing_is_written(run, store):
    run(placed(store, "one", place=3))
    second = run(claimed(store, "two"))

    assert run(store.replace([started(second, 3)])) == [False]
    assert run(store.get(["two"], payload=True)) == [second]
    assert run(store.replace([started(second, 2)])) == [True]


def test_the_same_number_on_another_worker_is_another_place(run, store):
    run(placed(store, "one", place=0))
    second = run(claimed(store, "two"))

    assert run(store.replace([started(second, 0, on="w-2")])) == [True]


def test_a_job_keeps_its_place_through_its_progress(run, store):
    first = run(placed(store, "one", place=0))
    moved = lifecycle.progressed(first, 1, done=1.0, total=2.0, now=NOW + 1)

    assert run(store.replace([moved])) == [True]
    assert run(store.replace([started(run(claimed(store, "two")), 0)])) == [False]


@pytest.mark.parametrize(
    "over",
    [
        lambda job: lifecycle.completed(job, 1, result=b"\xc0", now=NOW),
        lambda job: lifecycle.returned(job, 1, "full", now=NOW),
        lambda job: lifecycle.lost(job, 1, "gone", now=NOW, jitter=0.0, max_losses=5),
        lambda job: lifecycle.cancelled(job, now=NOW, stoppable=False),
    ],
)
def test_a_run_that_is_over_leaves_its_place(run, store, over):
    first = run(placed(store, "one", place=0))
    second = run(claimed(store, "two"))

    assert run(store.replace([over(first)])) == [True]
    assert run(store.replace([started(second, 0)])) == [True]


def test_of_many_in_one_batch_only_those_in_the_way_are_refused(run, store):
    run(placed(store, "one", place=1))
    others = [run(claimed(store, f"other-{number}")) for number in range(4)]
    wished = [started(job, place) for job, place in zip(others, (0, 1, 2, 2), strict=True)]

    assert run(store.replace(wished)) == [True, False, True, False]
    assert [job.execution.place for job in run(store.held_by(["w-1"]))] == [1, 0, 2]


def test_however_many_start_jobs_at_once_a_place_is_given_once(run, store):
    jobs = [run(claimed(store, f"job-{number}")) for number in range(24)]

    async def all_at_once():
        return await asyncio.gather(
            *(store.replace([started(job, at % 4)]) for at, job in enumerate(jobs))
        )

    assert sum(answer == [True] for answer in run(all_at_once())) == 4
    assert {job.execution.place for job in run(store.held_by(["w-1"]))} == {0, 1, 2, 3}


def test_revisions_are_told_of_those_that_are_there(run, store):
    first = run(placed(store, "one", place=1))
    second = run(claimed(store, "two"))

    assert run(store.revisions(["one", "nobody", "two"])) == {
        "one": first.revision,
        "two": second.revision,
    }
    assert run(store.revisions([])) == {}
