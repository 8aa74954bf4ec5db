"""How a job that has ended calls back, step by step."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import JobError
from shunter.model import callback, lifecycle
from shunter.model.callback import MARGIN_SECONDS
from shunter.model.job import FINAL, Callback, ErrorKind, Failure, Job, Status
from shunter.model.lifecycle import WorkerSlot
from shunter.model.queue_order import alarm
from shunter.model.retry import Retry

HOOK = Callback("http://127.0.0.1/done")
WAITS = Retry(delay=1.0, factor=3.0, max_delay=3600.0)


def running() -> Job:
    job = Job(id="j-1", type="t", created=0.0, updated=0.0, payload=b"\xc0", callback=HOOK)
    claimed = lifecycle.claimed(job, dispatcher_id="d-1", now=1.0)
    return lifecycle.started(claimed, WorkerSlot("w-1"), now=2.0)


def owing(now: float = 10.0) -> Job:
    return lifecycle.completed(running(), 1, result=b"\x01", now=now)


def answered(job: Job, error: str | None, *, now: float = 20.0, jitter: float = 0.0) -> Job:
    assert job.callback is not None
    return callback.called(
        job, job.callback.tries, error, now=now, jitter=jitter, max_tries=10, waits=WAITS
    )


ENDS = {
    "completed": lambda job: lifecycle.completed(job, 1, result=b"\x01", now=9.0),
    "failed": lambda job: lifecycle.failed(
        job, 1, Failure(ErrorKind.EXCEPTION, "no"), now=9.0, jitter=0.0
    ),
    "lost too often": lambda job: lifecycle.lost(job, 1, "gone", now=9.0, jitter=0.0, max_losses=1),
    "cancelled": lambda job: lifecycle.cancelled(job, now=9.0, stoppable=False),
    "timed out": lambda job: lifecycle.failed(
        job, 1, Failure(ErrorKind.TIMEOUT, "slow"), now=9.0, jitter=0.0
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_job_makes_its_callback_due(end: str) -> None:
    after = ENDS[end](running())

    assert after.status in FINAL
    assert after.callback == Callback(HOOK.url, due=9.0)
    assert alarm(after) == 9.0
    assert after.revision == running().revision + 1


def test_a_job_that_was_cancelled_before_it_ran_calls_back() -> None:
    job = Job(id="j-1", type="t", created=0.0, updated=0.0, callback=HOOK)

    after = lifecycle.cancelled(job, now=3.0, stoppable=True)

    assert callback.is_due(after, now=3.0)


def test_a_step_that_does_not_end_the_job_leaves_its_callback_alone() -> None:
    again = lifecycle.lost(running(), 1, "gone", now=9.0, jitter=0.0, max_losses=5)

    assert (again.status, again.callback) == (Status.QUEUED, HOOK)


def test_a_call_is_taken_until_after_it_must_have_ended() -> None:
    mine = callback.calling(owing(), now=11.0, seconds=7.0)

    assert mine.callback == Callback(HOOK.url, tries=1, due=18.0 + MARGIN_SECONDS)
    assert alarm(mine) == 18.0 + MARGIN_SECONDS
    assert mine.revision == owing().revision + 1


def test_a_call_that_somebody_has_taken_can_be_taken_over_only_when_its_time_is_over() -> None:
    theirs = callback.calling(owing(), now=11.0, seconds=7.0)

    with pytest.raises(JobError, match="not due yet, or another dispatcher"):
        callback.calling(theirs, now=22.9, seconds=7.0)
    mine = callback.calling(theirs, now=23.0, seconds=7.0)

    assert mine.callback is not None
    assert mine.callback.tries == 2


def test_a_success_is_the_end_of_it() -> None:
    failed = answered(callback.calling(owing(), now=11.0, seconds=7.0), "status 500")
    mine = callback.calling(failed, now=30.0, seconds=7.0)

    done = answered(mine, None)

    assert done.callback == Callback(HOOK.url, delivered=True, tries=2)
    assert alarm(done) is None
    assert done.revision == mine.revision + 1
    with pytest.raises(JobError, match="none any more"):
        callback.calling(done, now=99.0, seconds=7.0)
    with pytest.raises(JobError, match="none any more"):
        answered(done, None)


def test_a_failure_is_kept_and_tried_again_later() -> None:
    mine = callback.calling(owing(), now=11.0, seconds=7.0)

    failed = answered(mine, "status 500", now=20.0)

    assert failed.callback == Callback(HOOK.url, tries=1, due=21.0, error="status 500")


def test_a_success_counts_though_another_dispatcher_has_taken_over() -> None:
    first = callback.calling(owing(), now=11.0, seconds=7.0)
    second = callback.calling(first, now=50.0, seconds=7.0)

    done = callback.called(second, 1, None, now=51.0, jitter=0.0, max_tries=10, waits=WAITS)

    assert done.callback is not None
    assert done.callback.delivered


def test_a_failure_does_not_count_once_another_call_is_under_way() -> None:
    first = callback.calling(owing(), now=11.0, seconds=7.0)
    second = callback.calling(first, now=50.0, seconds=7.0)

    with pytest.raises(JobError, match="call 1 failed, but call 2 is under way"):
        callback.called(second, 1, "late", now=51.0, jitter=0.0, max_tries=10, waits=WAITS)


@given(st.integers(1, 12), st.floats(0.0, 0.999), st.floats(0.1, 60.0), st.floats(1.0, 1e5))
def test_waits_grow_up_to_the_longest_and_tries_come_to_an_end(
    max_tries: int, jitter: float, first: float, longest: float
) -> None:
    waits = Retry(delay=first, factor=3.0, max_delay=longest)
    job, spans, now = owing(), [], 10.0
    while (owed := job.callback) is not None and owed.due is not None:
        now = max(now, owed.due)
        mine = callback.calling(job, now=now, seconds=1.0)
        assert mine.callback is not None
        job = callback.called(
            mine,
            mine.callback.tries,
            "no",
            now=now,
            jitter=jitter,
            max_tries=max_tries,
            waits=waits,
        )
        assert job.callback is not None
        if job.callback.due is not None:
            spans.append(job.callback.due - now)

    assert len(spans) == max_tries - 1
    assert all(span <= longest + 1e-6 for span in spans)
    assert all(a <= b + 1e-6 for a, b in pairwise(spans))
    assert job.callback is not None
    assert (job.callback.tries, job.callback.delivered) == (max_tries, False)
    assert f"given up after {max_tries} tries (callbacks.max_tries)" in job.callback.error
    assert alarm(job) is None


def test_what_is_given_up_keeps_the_last_error() -> None:
    failed = answered(callback.calling(owing(), now=11.0, seconds=7.0), "status 418")

    assert "418" in (callback.given_up(failed).callback or HOOK).error


def test_a_long_error_is_cut() -> None:
    failed = answered(callback.calling(owing(), now=11.0, seconds=7.0), "x" * 5000)

    assert failed.callback is not None
    assert len(failed.callback.error) == callback.MOST_ERROR_LETTERS


@pytest.mark.parametrize("status", [status for status in Status if status not in FINAL])
def test_a_job_that_has_not_ended_does_not_call_back(status: Status) -> None:
    early = Callback(HOOK.url, due=1.0)
    job = Job(id="j-1", type="t", created=0.0, updated=0.0, status=status, callback=early)

    with pytest.raises(JobError, match="it calls back when it has ended"):
        callback.calling(job, now=5.0, seconds=1.0)


def test_a_job_without_a_callback_owes_none() -> None:
    job = Job(id="j-1", type="t", created=0.0, updated=0.0, status=Status.COMPLETED)

    assert not callback.is_due(job, now=5.0)
    with pytest.raises(JobError, match="no callback"):
        callback.calling(job, now=5.0, seconds=1.0)
