"""What may happen to a job, and what it is afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shunter.errors import InvalidTransition, JobError, JobFinal, LeaseLost, StaleAttempt
from shunter.model import lifecycle
from shunter.model.job import FINAL, Effects, ErrorKind, Execution, Failure, Job, Status
from shunter.model.lifecycle import TRANSITIONS, Event, WorkerSlot
from shunter.model.limits import MAX_SNOOZES
from shunter.model.retry import Retry

BROKEN = Failure(ErrorKind.EXCEPTION, "ValueError: no")
PUT_OFF = Failure(ErrorKind.SNOOZED, "put off for 60 s", wait=60.0)


def a_job(**changes: object) -> Job:
    return Job(id="j-1", type="t", created=0.0, updated=0.0, payload=b"\xc0", **changes)  # type: ignore[arg-type]


def claimed(job: Job) -> Job:
    return lifecycle.claimed(job, dispatcher_id="d-1", now=1.0)


def running(job: Job | None = None) -> Job:
    return lifecycle.started(claimed(job or a_job()), WorkerSlot("w-1"), now=2.0)


STEPS: dict[Event, Callable[[Job], Job]] = {
    Event.CLAIMED: claimed,
    Event.STARTED: lambda job: lifecycle.started(job, WorkerSlot("w-1"), now=2.0),
    Event.RELEASED: lambda job: lifecycle.released(job, now=3.0),
    Event.CAME_DUE: lambda job: lifecycle.came_due(job, now=3.0),
    Event.PUT_BACK: lambda job: lifecycle.put_back(job, not_before=9.0, now=3.0),
    Event.PROGRESSED: lambda job: lifecycle.progressed(job, job.attempt, done=1, total=2, now=3.0),
    Event.COMPLETED: lambda job: lifecycle.completed(job, job.attempt, result=b"\x01", now=3.0),
    Event.FAILED: lambda job: lifecycle.failed(job, job.attempt, BROKEN, now=3.0, jitter=0.5),
    Event.SNOOZED: lambda job: lifecycle.snoozed(job, job.attempt, PUT_OFF, now=3.0),
    Event.LOST: lambda job: lifecycle.lost(
        job, job.attempt, "gone", now=3.0, jitter=0.5, max_losses=5
    ),
    Event.RETURNED: lambda job: lifecycle.returned(job, job.attempt, "resigned", now=3.0),
    Event.EXPIRED: lambda job: lifecycle.expired(job, now=99.0, jitter=0.5, max_losses=5),
    Event.CANCEL_REQUESTED: lambda job: lifecycle.cancelled(job, now=3.0, stoppable=True),
    Event.CANCELLED: lambda job: lifecycle.cancelled(job, now=3.0, stoppable=False),
}

ILLEGAL = [
    (status, event)
    for status in Status
    for event in STEPS
    if (status, event) not in TRANSITIONS
    and not (event is Event.CANCEL_REQUESTED and (status, Event.CANCELLED) in TRANSITIONS)
]


@pytest.mark.parametrize(("status", "event"), ILLEGAL)
def test_a_step_that_the_table_does_not_list_is_refused(status: Status, event: Event) -> None:
    job = a_job(status=status, attempt=1, execution=Execution(worker_id="w-1", started=1.0))

    with pytest.raises(JobFinal if status in FINAL else InvalidTransition):
        STEPS[event](job)


@pytest.mark.parametrize(("status", "event"), [pair for pair in TRANSITIONS if pair[1] in STEPS])
def test_a_step_that_the_table_lists_leads_where_it_says(status: Status, event: Event) -> None:
    timeout = 5.0 if event is Event.EXPIRED else None
    job = a_job(
        status=status,
        attempt=1,
        execution=Execution(worker_id="w-1", started=1.0, timeout=timeout),
    )

    after = STEPS[event](job)

    assert after.status is TRANSITIONS[status, event]
    assert after.revision == job.revision + 1


def test_no_step_leads_out_of_a_final_state() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] in FINAL]


def test_every_state_but_the_first_can_be_reached() -> None:
    assert set(TRANSITIONS.values()) == set(Status)


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=30))
def test_whatever_happens_attempts_and_revisions_only_rise_and_final_stays_final(
    events: list[Event],
) -> None:
    job = a_job()
    for event in events:
        try:
            after = STEPS[event](job)
        except JobError:
            continue
        assert job.status not in FINAL
        assert after.revision == job.revision + 1
        assert after.attempt - job.attempt == (event is Event.STARTED)
        assert len(after.history) <= lifecycle.MAX_HISTORY
        job = after


def test_a_report_on_an_older_attempt_is_refused() -> None:
    again = STEPS[Event.STARTED](claimed(STEPS[Event.LOST](running())))

    with pytest.raises(StaleAttempt, match="attempt 1 is refused, the job is at attempt 2"):
        lifecycle.completed(again, 1, result=b"\x01", now=9.0)


def test_a_report_from_a_worker_that_does_not_hold_the_job_is_refused() -> None:
    with pytest.raises(LeaseLost, match="w-2 is refused, the job is held by w-1"):
        lifecycle.check_holder(running(), "w-2")


def test_a_failure_is_retried_with_growing_waits_until_the_retries_are_used_up() -> None:
    job = running(a_job(retry=Retry(limit=2, delay=10.0, factor=3.0, jitter=0.0)))
    waits = []
    while job.status is Status.IN_PROGRESS:
        job = lifecycle.failed(job, job.attempt, BROKEN, now=100.0, jitter=0.5)
        if job.wait_until is not None:
            waits.append(job.wait_until - 100.0)
            job = STEPS[Event.STARTED](claimed(lifecycle.came_due(job, now=200.0)))

    assert waits == [10.0, 30.0]
    assert job.status is Status.FAILED
    assert [past.outcome for past in job.history] == ["retried", "retried", "failed"]
    assert job.error == BROKEN


def test_the_handlers_retry_policy_counts_where_the_job_has_none() -> None:
    job = lifecycle.failed(
        running(), 1, BROKEN, now=3.0, jitter=0.0, retry=Retry(limit=1, delay=1.0)
    )

    assert job.status is Status.QUEUED


@pytest.mark.parametrize("kind", [ErrorKind.TIMEOUT, ErrorKind.REFUSED])
def test_time_outs_and_refusals_are_final_whatever_the_retries(kind: ErrorKind) -> None:
    job = running(a_job(retry=Retry(limit=9)))

    after = lifecycle.failed(job, 1, Failure(kind, "no"), now=3.0, jitter=0.0)

    assert after.status is Status.FAILED


def test_a_failure_that_is_final_uses_up_no_retries() -> None:
    job = running(a_job(retry=Retry(limit=9)))

    after = lifecycle.failed(job, 1, replace(BROKEN, is_final=True), now=3.0, jitter=0.0)

    assert after.status is Status.FAILED


def test_a_time_out_is_tried_again_where_the_policy_says_so() -> None:
    timed_out = Failure(ErrorKind.TIMEOUT, "too long")
    job = running(a_job(retry=Retry(limit=1, on_timeout=True), execution=Execution(timeout=30.0)))

    told = lifecycle.failed(job, 1, timed_out, now=99.0, jitter=0.0)
    untold = STEPS[Event.EXPIRED](job)

    assert (told.status, untold.status) == (Status.QUEUED, Status.QUEUED)
    assert (told.failures, untold.failures) == (1, 1)
    assert STEPS[Event.EXPIRED](replace(job, failures=1)).status is Status.FAILED


def test_a_job_that_is_put_off_waits_and_nothing_is_counted_against_it() -> None:
    job = running(a_job(place_within=10.0))
    for _ in range(3):
        job = STEPS[Event.SNOOZED](job)
        assert (job.status, job.wait_until, job.place_by) == (Status.QUEUED, 63.0, 73.0)
        job = STEPS[Event.STARTED](claimed(lifecycle.came_due(job, now=63.0)))

    assert (job.failures, job.losses, job.snoozes, job.attempt) == (0, 0, 3, 4)
    assert [past.outcome for past in job.history] == ["snoozed"]


def test_a_job_that_is_put_off_without_end_fails_in_the_end() -> None:
    job = running(a_job(snoozes=MAX_SNOOZES))

    after = STEPS[Event.SNOOZED](job)

    assert after.status is Status.FAILED
    assert after.error is not None
    assert "put off 1,000 times" in after.error.message


def test_a_job_whose_workers_keep_dying_is_given_up_with_that_as_its_error() -> None:
    job = running()
    for _ in range(4):
        job = STEPS[Event.LOST](job)
        assert job.status is Status.QUEUED
        job = STEPS[Event.STARTED](claimed(job))
    job = STEPS[Event.LOST](job)

    assert job.status is Status.FAILED
    assert job.error is not None
    assert "5 losses (max_losses)" in job.error.message
    assert "gone" in job.error.message


def test_the_first_loss_queues_the_job_at_once_and_later_ones_wait() -> None:
    once = STEPS[Event.LOST](running())
    twice = STEPS[Event.LOST](STEPS[Event.STARTED](claimed(once)))

    assert once.wait_until is None
    assert twice.wait_until is not None


@pytest.mark.parametrize("event", [Event.LOST, Event.EXPIRED])
def test_a_job_that_bears_no_second_run_ends_as_lost(event: Event) -> None:
    job = running(a_job(effects=Effects.AT_MOST_ONCE))

    after = STEPS[event](job)

    assert after.status is Status.FAILED
    assert after.error is not None
    assert after.error.kind is ErrorKind.LOST
    assert "may have had its effect" in after.error.message
    assert after.history[-1].outcome == Event.ABANDONED


def test_a_job_that_bears_no_second_run_may_be_returned_untouched_and_no_other() -> None:
    job = running(a_job(effects=Effects.AT_MOST_ONCE))

    untouched = lifecycle.returned(job, 1, "resigned", now=3.0)
    touched = lifecycle.returned(job, 1, "resigned", now=3.0, may_have_begun=True)
    bearable = lifecycle.returned(running(), 1, "resigned", now=3.0, may_have_begun=True)

    assert untouched.status is Status.QUEUED
    assert (touched.status, touched.history[-1].outcome) == (Status.FAILED, Event.ABANDONED)
    assert bearable.status is Status.QUEUED


def test_a_time_out_is_final_for_a_job_that_bears_no_second_run() -> None:
    retry = Retry(limit=9, on_timeout=True)
    job = running(a_job(effects=Effects.AT_MOST_ONCE, retry=retry))

    after = lifecycle.failed(job, 1, Failure(ErrorKind.TIMEOUT, "long"), now=3.0, jitter=0.0)
    raised = lifecycle.failed(job, 1, BROKEN, now=3.0, jitter=0.0)

    assert (after.status, raised.status) == (Status.FAILED, Status.QUEUED)


def test_what_the_handler_bears_counts_where_nobody_has_said_it() -> None:
    slot = WorkerSlot("w-1", at_most_once=frozenset({"t"}))
    told = a_job(effects=Effects.AT_LEAST_ONCE)

    assert lifecycle.started(claimed(a_job()), slot, now=2.0).effects is Effects.AT_MOST_ONCE
    assert lifecycle.started(claimed(told), slot, now=2.0).effects is Effects.AT_LEAST_ONCE
    assert running().effects is None


@pytest.mark.parametrize(
    "event", [Event.FAILED, Event.SNOOZED, Event.LOST, Event.RETURNED, Event.EXPIRED]
)
def test_a_run_that_ends_badly_after_a_cancel_request_leaves_the_job_cancelled(
    event: Event,
) -> None:
    asked = lifecycle.cancelled(running(), now=3.0, stoppable=True)

    after = STEPS[event](asked)

    assert after.status is Status.CANCELLED
    assert after.error is not None
    assert after.error.kind is ErrorKind.CANCELLED


def test_a_run_that_completes_after_a_cancel_request_has_completed() -> None:
    asked = lifecycle.cancelled(running(), now=3.0, stoppable=True)

    assert STEPS[Event.COMPLETED](asked).status is Status.COMPLETED


def test_expiry_gives_a_worker_that_stops_jobs_itself_time_to_do_so() -> None:
    job = a_job(execution=Execution(timeout=10.0))

    after = lifecycle.started(claimed(job), WorkerSlot("w-1", expiry_grace=5.0), now=100.0)

    assert after.execution.expiry == 115.0


def test_a_silent_worker_loses_its_job_but_a_timed_out_job_fails() -> None:
    quiet = WorkerSlot("w-1", presumed_dead_after=60.0)
    silent = lifecycle.started(claimed(a_job()), quiet, now=0.0)
    slow = lifecycle.started(
        claimed(a_job(execution=Execution(timeout=30.0))),
        quiet,
        now=0.0,
    )

    assert (silent.execution.expiry, slow.execution.expiry) == (60.0, 30.0)
    assert STEPS[Event.EXPIRED](silent).status is Status.QUEUED
    assert STEPS[Event.EXPIRED](slow).status is Status.FAILED
