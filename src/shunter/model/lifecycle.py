"""What may happen to a job, and what the job is afterwards.

`TRANSITIONS` is the whole truth: no code moves a job along a step that it does not list, and
docs/spec/jobs.md and the tests are made from it. Every function takes a job and returns the
next one with its revision raised, or raises a JobError and changes nothing.
Pure: `now` and randomness are arguments. Must not know stores, sockets or settings.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shunter.errors import InvalidTransition, JobFinal, LeaseLost, StaleAttempt
from shunter.model.job import (
    Dispatch,
    Effects,
    ErrorKind,
    Execution,
    Failure,
    Job,
    PastAttempt,
    Progress,
    Status,
)
from shunter.model.lane_claim import LanePlace
from shunter.model.limits import MAX_SNOOZES
from shunter.model.retry import AFTER_LOSS, NO_RETRY, Retry, backoff
from shunter.model.run_times import run_start, run_times


class Event(StrEnum):
    """What can happen to a job."""

    CLAIMED = "claimed"
    STARTED = "started"
    RELEASED = "released"
    CAME_DUE = "came due"
    PUT_BACK = "put back"
    PARKED = "parked"
    WOKEN = "woken"
    UNPLACED = "unplaced"
    PROGRESSED = "progressed"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    LOST = "lost"
    EXHAUSTED = "exhausted"
    ABANDONED = "abandoned"
    RETURNED = "returned"
    EXPIRED = "expired"
    SIGNALLED = "signalled"
    CANCEL_REQUESTED = "cancel requested"
    CANCELLED = "cancelled"


TRANSITIONS: dict[tuple[Status, Event], Status] = {
    (Status.WAITING, Event.PARKED): Status.WAITING,
    (Status.WAITING, Event.SIGNALLED): Status.WAITING,
    (Status.WAITING, Event.WOKEN): Status.QUEUED,
    (Status.WAITING, Event.CANCELLED): Status.CANCELLED,
    (Status.QUEUED, Event.CLAIMED): Status.DISPATCHING,
    (Status.QUEUED, Event.CAME_DUE): Status.QUEUED,
    (Status.QUEUED, Event.PUT_BACK): Status.QUEUED,
    (Status.QUEUED, Event.SIGNALLED): Status.QUEUED,
    (Status.QUEUED, Event.UNPLACED): Status.FAILED,
    (Status.QUEUED, Event.CANCELLED): Status.CANCELLED,
    (Status.DISPATCHING, Event.STARTED): Status.IN_PROGRESS,
    (Status.DISPATCHING, Event.RELEASED): Status.QUEUED,
    (Status.DISPATCHING, Event.PUT_BACK): Status.QUEUED,
    (Status.DISPATCHING, Event.SIGNALLED): Status.DISPATCHING,
    (Status.DISPATCHING, Event.CANCELLED): Status.CANCELLED,
    (Status.IN_PROGRESS, Event.PROGRESSED): Status.IN_PROGRESS,
    (Status.IN_PROGRESS, Event.SIGNALLED): Status.IN_PROGRESS,
    (Status.IN_PROGRESS, Event.COMPLETED): Status.COMPLETED,
    (Status.IN_PROGRESS, Event.FAILED): Status.FAILED,
    (Status.IN_PROGRESS, Event.RETRIED): Status.QUEUED,
    (Status.IN_PROGRESS, Event.SNOOZED): Status.QUEUED,
    (Status.IN_PROGRESS, Event.PARKED): Status.WAITING,
    (Status.IN_PROGRESS, Event.LOST): Status.QUEUED,
    (Status.IN_PROGRESS, Event.EXHAUSTED): Status.FAILED,
    (Status.IN_PROGRESS, Event.ABANDONED): Status.FAILED,
    (Status.IN_PROGRESS, Event.RETURNED): Status.QUEUED,
    (Status.IN_PROGRESS, Event.EXPIRED): Status.FAILED,
    (Status.IN_PROGRESS, Event.CANCEL_REQUESTED): Status.IN_PROGRESS,
    (Status.IN_PROGRESS, Event.CANCELLED): Status.CANCELLED,
}

RunTimes = tuple[float | None, float]
"""When a run began and ended."""

CLAIM_GRACE_SECONDS = 5.0
"""How long beyond the cooldown a claim holds before anyone may put the job back."""

MAX_HISTORY = 20


def step(job: Job, event: Event) -> Status:
    """Return the status that `event` leads to, or raise."""
    try:
        return TRANSITIONS[job.status, event]
    except KeyError:
        refusal = JobFinal if job.status.is_final else InvalidTransition
        raise refusal(job.id, job.status.word, event) from None


def fence(job: Job, attempt: int) -> None:
    """Raise unless `attempt` is the job's current one."""
    if attempt != job.attempt:
        raise StaleAttempt(job.id, attempt, job.attempt)


def check_holder(job: Job, worker_id: str) -> None:
    """Raise unless this worker runs the job."""
    if job.status is Status.IN_PROGRESS and job.execution.worker_id != worker_id:
        raise LeaseLost(job.id, worker_id, job.execution.worker_id or "nobody")


def claim_expiry(now: float, cooldown: float) -> float:
    """Return until when a claim made now holds."""
    return now + cooldown + CLAIM_GRACE_SECONDS


def claimed(job: Job, *, dispatcher_id: str, now: float, cooldown: float = 0.0) -> Job:
    """A dispatcher takes a queued job for itself."""
    dispatch = Dispatch(dispatcher_id, now, claim_expiry(now, cooldown))
    return _moved(job, Event.CLAIMED, now, dispatcher=dispatch)


class WorkerSlot(Struct, frozen=True):
    """A place on a worker for one job, and what that worker's ways mean for its expiry.

    `expiry_grace` is the time that a worker which enforces time-outs itself gets to do so.
    `presumed_dead_after` is for a worker that is silent while it works. `place` is a number below
    the worker's `max_jobs`, where others may be choosing the same worker at the same moment.
    `at_most_once` are the types whose handlers there bear no second run. `version` is that of the
    worker's app.
    """

    worker_id: str
    expiry_grace: float = 0.0
    presumed_dead_after: float | None = None
    place: int | None = None
    at_most_once: frozenset[str] = frozenset()
    version: str = ""


def started(
    job: Job, slot: WorkerSlot, *, now: float, held: LanePlace | None = None, **changes: Any
) -> Job:
    """The job is handed to a worker; this raises the attempt.

    `held` are places that it gets under limits just now, until it has ended.
    """
    spans = []
    if job.execution.timeout is not None:
        spans.append(job.execution.timeout + slot.expiry_grace)
    if slot.presumed_dead_after is not None:
        spans.append(slot.presumed_dead_after)
    execution = replace(
        job.execution,
        worker_id=slot.worker_id,
        sent=now,
        started=None,
        ended=None,
        expiry=now + min(spans) if spans else None,
        place=slot.place,
        limit_place=job.execution.limit_place if held is None else held.limit,
        total_place=job.execution.total_place if held is None else held.total,
    )
    if slot.version != job.version:
        changes["version"] = slot.version
    if job.effects is None and job.type in slot.at_most_once:
        changes["effects"] = Effects.AT_MOST_ONCE
    return _moved(job, Event.STARTED, now, execution=execution, attempt=job.attempt + 1, **changes)


def started_at_once(claimed_job: Job, slot: WorkerSlot, held: LanePlace | None = None) -> Job:
    """Start a job by the same write that claims it: two steps of the table, one revision."""
    assert claimed_job.dispatcher is not None
    now, revision = claimed_job.dispatcher.date, claimed_job.revision
    return started(claimed_job, slot, now=now, held=held, revision=revision)


def occupying(job: Job, place: LanePlace) -> Job:
    """Give a job that is being claimed the places that it has under limits, until it has ended."""
    run = replace(job.execution, limit_place=place.limit, total_place=place.total)
    return replace(job, execution=run)


def released(job: Job, *, now: float) -> Job:
    """A claim that was never acted on is undone."""
    run = replace(job.execution, limit_place=None, total_place=None)
    return _moved(job, Event.RELEASED, now, dispatcher=None, execution=run)


def came_due(job: Job, *, now: float) -> Job:
    """The time that a waiting job waited for has come."""
    return _moved(job, Event.CAME_DUE, now, wait_until=None)


def put_back(job: Job, *, not_before: float | None, now: float, **changes: Any) -> Job:
    """Another submission with the job's key says when it may start, and perhaps what it does."""
    place_within = changes.setdefault("place_within", job.place_within)
    return _moved(
        job,
        Event.PUT_BACK,
        now,
        dispatcher=None,
        not_before=not_before,
        wait_until=not_before if not_before is not None and not_before > now else None,
        place_by=None if place_within is None else max(not_before or now, now) + place_within,
        **changes,
    )


def parked(
    job: Job, attempt: int, *, now: float, wait_until: float | None = None, **changes: Any
) -> Job:
    """The job gives its slot away until what it waits for has happened, or until a moment.

    One that was being cancelled is cancelled. A job that is parked already may be told of another
    moment, or of none.
    """
    step(job, Event.PARKED)
    fence(job, attempt)
    if job.cancel_requested:
        error = Failure(ErrorKind.CANCELLED, "cancelled on request")
        return _ended_run(job, Event.CANCELLED, error, now)
    run = _without_run(job.execution)
    return _moved(
        job,
        Event.PARKED,
        now,
        execution=run,
        dispatcher=None,
        wait_until=wait_until,
        place_by=None,
        **changes,
    )


def woken(job: Job, *, now: float) -> Job:
    """What a parked job waited for has happened: it is queued, from when on it may start."""
    due = max(job.not_before or now, now)
    return _moved(
        job,
        Event.WOKEN,
        now,
        wait_until=due if due > now else None,
        place_by=None if job.place_within is None else due + job.place_within,
    )


def unplaced(job: Job, *, now: float) -> Job:
    """No worker took the job in the time that it was given."""
    message = f"no worker took it within {job.place_within or 0.0:g} s"
    return _moved(
        job,
        Event.UNPLACED,
        now,
        error=Failure(ErrorKind.UNPLACED, message),
        execution=replace(job.execution, ended=now),
        wait_until=None,
    )


def progressed(
    job: Job,
    attempt: int,
    *,
    done: float,
    total: float | None,
    note: str = "",
    waited: float | None = None,
    now: float,
) -> Job:
    """The handler says how far it has come, and thereby that it has begun."""
    fence(job, attempt)
    changes: dict[str, Any] = {"progress": Progress(done, total, now, note)}
    if job.execution.started is None:
        started = run_start(job.execution, waited, now=now)
        changes["execution"] = replace(job.execution, started=started)
    return _moved(job, Event.PROGRESSED, now, **changes)


def signalled(job: Job, name: str, *, now: float) -> Job:
    """Somebody sent the job a signal, by which it is woken if it waits for that one."""
    if job.status is Status.WAITING and job.waits is not None and job.waits.signal == name:
        return replace(woken(job, now=now), signals=job.signals + 1)
    return _moved(job, Event.SIGNALLED, now, signals=job.signals + 1)


def completed(
    job: Job,
    attempt: int,
    *,
    result: bytes,
    log: str = "",
    waited: float | None = None,
    ran: float | None = None,
    now: float,
) -> Job:
    """The worker delivers the result."""
    step(job, Event.COMPLETED)
    fence(job, attempt)
    started, ended = run_times(job.execution, waited, ran, now=now)
    return _moved(
        job,
        Event.COMPLETED,
        now,
        result=result,
        log=log,
        error=None,
        execution=_closed(job.execution, started, ended),
    )


def failed(
    job: Job,
    attempt: int,
    error: Failure,
    *,
    now: float,
    jitter: float,
    log: str = "",
    retry: Retry | None = None,
    waited: float | None = None,
    ran: float | None = None,
) -> Job:
    """The run failed; the job is tried again while its retries last.

    A time-out is final unless the policy says otherwise. `retry` is the handler's own policy, which
    counts where the job came without one. A job that was being cancelled is cancelled.
    """
    step(job, Event.FAILED)
    fence(job, attempt)
    times = run_times(job.execution, waited, ran, now=now)
    if error.kind is ErrorKind.CANCELLED or job.cancel_requested:
        stopped = replace(error, kind=ErrorKind.CANCELLED)
        return _ended_run(job, Event.CANCELLED, stopped, now, times, log=log)
    policy = job.retry or retry or NO_RETRY
    failures = job.failures + 1
    if _is_worth_a_try(job, error, policy) and failures <= policy.limit:
        wait_until = now + backoff(policy, failures, jitter=jitter)
        return _ended_run(
            job, Event.RETRIED, error, now, times, log=log, failures=failures, wait_until=wait_until
        )
    return _ended_run(job, Event.FAILED, error, now, times, log=log, failures=failures)


def _is_worth_a_try(job: Job, error: Failure, policy: Retry) -> bool:
    if error.kind is ErrorKind.TIMEOUT:
        return policy.on_timeout and not _bears_no_second_run(job)
    return error.kind is ErrorKind.EXCEPTION and not error.is_final


def snoozed(
    job: Job,
    attempt: int,
    error: Failure,
    *,
    now: float,
    log: str = "",
    waited: float | None = None,
    ran: float | None = None,
) -> Job:
    """The handler puts the job off; nobody is to blame, and only how often is counted."""
    step(job, Event.SNOOZED)
    fence(job, attempt)
    times = run_times(job.execution, waited, ran, now=now)
    if job.cancel_requested:
        stopped = Failure(ErrorKind.CANCELLED, f"cancelled; {error.message}")
        return _ended_run(job, Event.CANCELLED, stopped, now, times, log=log)
    if job.snoozes >= MAX_SNOOZES:
        message = f"it was put off {MAX_SNOOZES:,} times and may not be again; submit a new job"
        return _ended_run(
            job, Event.FAILED, Failure(ErrorKind.SNOOZED, message), now, times, log=log
        )
    wait_until = now + (error.wait or 0.0)
    snoozes = job.snoozes + 1
    return _ended_run(
        job, Event.SNOOZED, error, now, times, log=log, snoozes=snoozes, wait_until=wait_until
    )


def lost(
    job: Job,
    attempt: int,
    reason: str,
    *,
    now: float,
    jitter: float,
    max_losses: int,
    log: str = "",
    waited: float | None = None,
    ran: float | None = None,
) -> Job:
    """Whoever ran the job is gone; it is queued again, but not for ever.

    One that bears no second run has ended: nobody knows how far it came.
    """
    step(job, Event.LOST)
    fence(job, attempt)
    times = run_times(job.execution, waited, ran, now=now)
    losses = job.losses + 1
    if job.cancel_requested:
        error = Failure(ErrorKind.CANCELLED, f"cancelled; {reason}")
        return _ended_run(job, Event.CANCELLED, error, now, times, log=log, losses=losses)
    if _bears_no_second_run(job):
        return _abandoned(job, reason, times, now=now, log=log, losses=losses)
    error = Failure(ErrorKind.LOST, reason)
    if losses >= max_losses:
        error = Failure(
            ErrorKind.LOST,
            f"given up after {losses} losses (max_losses): its workers keep dying; last: {reason}",
        )
        return _ended_run(job, Event.EXHAUSTED, error, now, times, log=log, losses=losses)
    wait_until = now + backoff(AFTER_LOSS, losses - 1, jitter=jitter) if losses > 1 else None
    return _ended_run(
        job, Event.LOST, error, now, times, log=log, losses=losses, wait_until=wait_until
    )


def _bears_no_second_run(job: Job) -> bool:
    return job.effects is Effects.AT_MOST_ONCE


def _abandoned(job: Job, reason: str, times: RunTimes | None, *, now: float, **changes: Any) -> Job:
    message = f"{reason}; it may have had its effect, and is not run again (effects at_most_once)"
    error = Failure(ErrorKind.LOST, message)
    return _ended_run(job, Event.ABANDONED, error, now, times, **changes)


def returned(
    job: Job, attempt: int, reason: str, *, now: float, may_have_begun: bool = False
) -> Job:
    """A worker gives back a job that it has not done; nobody is to blame.

    It runs elsewhere; not so one that bears no second run and may have begun.
    """
    step(job, Event.RETURNED)
    fence(job, attempt)
    times = job.execution.started, now  # most have only waited there
    if job.cancel_requested:
        error = Failure(ErrorKind.CANCELLED, f"cancelled; {reason}")
        return _ended_run(job, Event.CANCELLED, error, now, times)
    if may_have_begun and _bears_no_second_run(job):
        return _abandoned(job, reason, None, now=now)
    return _ended_run(job, Event.RETURNED, Failure(ErrorKind.LOST, reason), now, times)


def expired(job: Job, *, now: float, jitter: float, max_losses: int) -> Job:
    """The job is past its expiry: timed out, or its silent worker is presumed dead."""
    step(job, Event.EXPIRED)
    if job.cancel_requested:
        error = Failure(ErrorKind.CANCELLED, "cancelled; its worker did not say how it ended")
        return _ended_run(job, Event.CANCELLED, error, now)
    run = job.execution
    given_at = run.given_at
    gone_for = now - (now if given_at is None else given_at)
    if run.timeout is None or gone_for < run.timeout:
        reason = f"worker {run.worker_id} was silent for {gone_for:.1f} s and is presumed dead"
        return lost(job, job.attempt, reason, now=now, jitter=jitter, max_losses=max_losses)
    message = f"ran past its time-out of {run.timeout:g} s; its worker was told to stop"
    error = Failure(ErrorKind.TIMEOUT, message)
    if job.retry is not None and job.retry.on_timeout:
        return failed(job, job.attempt, error, now=now, jitter=jitter)
    return _ended_run(job, Event.EXPIRED, error, now)


def cancelled(job: Job, *, now: float, stoppable: bool, error: Failure | None = None) -> Job:
    """Somebody wants the job stopped, or `error` says what else it ends for.

    A job in progress on a worker that can be told (`stoppable`) stays in progress until the
    worker says that it has stopped it, and how; anywhere else it ends at once.
    """
    if job.status is Status.IN_PROGRESS and stoppable:
        return _moved(job, Event.CANCEL_REQUESTED, now, cancel_requested=True)
    error = error or Failure(ErrorKind.CANCELLED, "cancelled on request")
    if job.status is Status.IN_PROGRESS:
        return _ended_run(job, Event.CANCELLED, error, now)
    step(job, Event.CANCELLED)
    ended = replace(job.execution, ended=now)
    return _moved(
        job, Event.CANCELLED, now, error=error, execution=ended, wait_until=None, dispatcher=None
    )


def _moved(job: Job, event: Event, now: float, **changes: Any) -> Job:
    """Take a step. One that ends the job makes its callback due: they are one write."""
    status = step(job, event)
    if status.is_final and job.callback is not None:
        changes["callback"] = replace(job.callback, due=now + job.callback.grace)
    changes.setdefault("revision", job.revision + 1)
    return replace(job, status=status, updated=now, **changes)


def _ended_run(
    job: Job,
    event: Event,
    error: Failure,
    now: float,
    times: RunTimes | None = None,
    **changes: Any,
) -> Job:
    """Close the current run without a result and note it in the job's history."""
    run = job.execution
    started, ended = times or run_times(run, None, None, now=now)
    past = PastAttempt(job.attempt, run.worker_id, started, ended, event.value, error.message)
    history = job.history
    if event is Event.SNOOZED and history and history[-1].outcome == event:
        history = history[:-1]  # one line for all of them, or nothing else would be left
    is_final = step(job, event).is_final
    execution = _closed(run, started, ended) if is_final else _without_run(run)
    if job.place_within is not None and event in (Event.LOST, Event.RETRIED, Event.SNOOZED):
        changes["place_by"] = (changes.get("wait_until") or now) + job.place_within
    log = changes.pop("log", "")
    return _moved(
        job,
        event,
        now,
        error=error,
        execution=execution,
        dispatcher=job.dispatcher if is_final else None,
        progress=job.progress if is_final else None,
        history=(*history[-MAX_HISTORY + 1 :], past),
        log=log or job.log,
        **changes,
    )


def _closed(run: Execution, started: float | None, ended: float) -> Execution:
    """Say how long the last run took; it has left its places under limits."""
    return replace(run, started=started, ended=ended, limit_place=None, total_place=None)


def _without_run(run: Execution) -> Execution:
    """Forget who had the job, and what it took up there."""
    return replace(
        run,
        worker_id=None,
        sent=None,
        started=None,
        expiry=None,
        place=None,
        limit_place=None,
        total_place=None,
    )
