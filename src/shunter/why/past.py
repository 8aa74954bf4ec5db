"""Where the time of a job went that runs or has ended. Pure.

The record has when it was created, might start, was sent, started and ended, and how the runs
before the last one went. What lies between those is named here; all of it adds up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from shunter.model.explanation import Explanation, JobStanding, LifeSpan, SpanKind
from shunter.model.job import ErrorKind, Job, Status, in_one_line
from shunter.model.waits import WaitKind
from shunter.why.wording import holder_of, span_text


def explain_ended(job: Job, awaited_until: float | None = None) -> Explanation:
    """Say why an ended job took so long; `awaited_until` is when those had ended it waited for."""
    ended = job.execution.ended or job.updated
    spans = tuple(life_spans(job, until=ended, awaited_until=awaited_until))
    took = max(0.0, ended - job.created)
    text = f"it {_outcome(job)} {span_text(took)} after it was created"
    if spans:
        longest = max(spans, key=lambda it: it.seconds)
        text += f"; for {span_text(longest.seconds)} of that it {longest.text}"
    return Explanation(
        job_id=job.id,
        type=job.type,
        status=job.status.word,
        standing=JobStanding.ENDED,
        at=ended,
        text=text,
        spans=spans,
    )


def explain_running(job: Job, awaited_until: float | None = None, *, now: float) -> Explanation:
    """Say who runs a job, since when."""
    run = job.execution
    since = run.started if run.started is not None else run.given_at or job.updated
    verb = "has run it for" if run.started is not None else "was given it"
    ago = span_text(max(0.0, now - since)) + ("" if run.started is not None else " ago")
    stop = "; it was told to stop" if job.cancel_requested else ""
    return Explanation(
        job_id=job.id,
        type=job.type,
        status=job.status.word,
        standing=JobStanding.RUNNING,
        at=now,
        text=f"worker {run.worker_id} {verb} {ago}, as its run {job.attempt}{stop}",
        holder=holder_of(job),
        spans=tuple(life_spans(job, until=now, awaited_until=awaited_until)),
    )


def life_spans(job: Job, *, until: float, awaited_until: float | None = None) -> Iterator[LifeSpan]:
    """Yield where the time went from its creation on, in order; what took none is left out."""
    sums: dict[SpanKind, float] = {}
    at = job.created

    def pass_until(moment: float | None, kind: SpanKind) -> None:
        nonlocal at
        if moment is not None and at < moment:
            end = min(moment, until)
            sums[kind] = sums.get(kind, 0.0) + max(0.0, end - at)
            at = max(at, end)

    run, gap = job.execution, SpanKind.QUEUED
    if job.when is not None and job.waits is None:
        pass_until(awaited_until, SpanKind.PARKED)
    pass_until(job.not_before, SpanKind.DELAYED)
    for past in job.history:
        is_current = past.attempt == job.attempt and job.status.is_final
        if is_current:
            break
        pass_until(past.started if past.started is not None else past.ended, gap)
        pass_until(past.ended, SpanKind.EARLIER_RUNS)
        gap = SpanKind.BETWEEN_RUNS
    if job.waits is not None and job.attempt > 1:
        pass_until(job.waits.since, SpanKind.EARLIER_RUNS)
        pass_until(_parked_until(job, awaited_until), SpanKind.PARKED)
        gap = SpanKind.QUEUED
    pass_until(run.given_at if run.worker_id else until, gap)
    if run.worker_id:
        pass_until(run.started, SpanKind.SENT)
        is_begun = run.started is not None
        pass_until(until, SpanKind.HANDLER if is_begun else SpanKind.SENT)
    texts = _texts(job)
    for kind in SpanKind:
        if sums.get(kind, 0.0) > 0.0:
            yield LifeSpan(kind, sums[kind], texts[kind])


def _parked_until(job: Job, awaited_until: float | None) -> float | None:
    """When the last wait was over, as far as the record says."""
    assert job.waits is not None
    match job.waits.kind:
        case WaitKind.CHILDREN:
            return awaited_until
        case WaitKind.SLEEP:
            return job.waits.until
        case WaitKind.SIGNAL:
            return job.execution.given_at  # when it came is in its journal


def _texts(job: Job) -> dict[SpanKind, str]:
    runs = [it for it in job.history if it.attempt != job.attempt or not job.status.is_final]
    outcomes = ", ".join(dict.fromkeys(it.outcome for it in runs))
    earlier = f"ran without completing ({outcomes})" if outcomes else ""
    is_with_worker = job.status is Status.IN_PROGRESS and job.execution.started is None
    return {
        SpanKind.DELAYED: "waited for its time",
        SpanKind.PARKED: "waited for other jobs" if job.when else "was parked",
        SpanKind.QUEUED: "was in the queue",
        SpanKind.EARLIER_RUNS: earlier or "ran before it was parked last",
        SpanKind.BETWEEN_RUNS: "waited to be tried again",
        SpanKind.SENT: "is with its worker, which has not said since when it runs"
        if is_with_worker
        else "was on its way to its handler",
        SpanKind.HANDLER: "ran in its handler",
    }


def _outcome(job: Job) -> str:
    if job.status is Status.COMPLETED:
        return "completed"
    if job.status is Status.CANCELLED:
        _, _, reason = in_one_line(job.error).partition(": ")
        if reason.startswith("cancelled "):
            return f"was {reason.partition(';')[0]}"
        return f"was cancelled ({reason})" if reason else "was cancelled"
    if job.error is not None and job.error.kind is ErrorKind.UNPLACED:
        return "failed, since no worker took it in time,"
    return f"failed ({in_one_line(job.error)})"
