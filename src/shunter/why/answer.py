"""The answer to "why?", from a situation and the facts around it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from shunter.model.explanation import (
    ChangeKind,
    Explanation,
    JobStanding,
    Reason,
    ReasonKind,
    SmallestChange,
)
from shunter.why.changes import smallest_change
from shunter.why.obstacles import kept_by
from shunter.why.situation import Situation
from shunter.why.wording import Facts, reason_of, span_text

SOON_SECONDS = 5.0
"""How long a job may wait for which there is room, while dispatchers take notice of it."""

_PASSING = frozenset(
    {
        ReasonKind.TIME,
        ReasonKind.SLEEP,
        ReasonKind.FULL,
        ReasonKind.LIMIT,
        ReasonKind.TOTAL,
        ReasonKind.RATE,
        ReasonKind.OLDER,
    }
)
"""What passes at a moment that can be estimated."""


def explain_waiting(situation: Situation, facts: Facts) -> Explanation:
    """Say why a job that has not been started is not."""
    kept = kept_by(situation)
    if kept is None or not kept.kinds:
        return _explanation(situation, JobStanding.STARTING, _nothing(situation))
    reasons = tuple(reason_of(kind, kept.situation, facts) for kind in kept.kinds)
    is_stuck = any(kind.is_stuck for kind in kept.kinds)
    change = smallest_change(kept.situation, kept.kinds)
    return _explanation(
        situation,
        JobStanding.STUCK if is_stuck else JobStanding.WAITING,
        reasons[0].text,
        reasons=reasons,
        change=_with_next_question(change, reasons),
        starts_in=_estimate(kept.situation, kept.kinds, facts),
    )


def _explanation(
    situation: Situation, standing: JobStanding, text: str, **answers: object
) -> Explanation:
    job = situation.job
    return Explanation(
        job_id=job.id,
        type=job.type,
        status=job.status.word,
        standing=standing,
        at=situation.now,
        text=text,
        **answers,  # type: ignore[arg-type]
    )


def _with_next_question(
    change: SmallestChange | None, reasons: Sequence[Reason]
) -> SmallestChange | None:
    """Where a job waits for others, say how to ask why the first of those does not run."""
    if change is None or change.kind is not ChangeKind.JOBS or not reasons[0].holders:
        return change
    idle = [it for it in reasons[0].holders if not it.worker_id] or reasons[0].holders
    return replace(change, command=f"shunter why {idle[0].job_id}")


def _nothing(situation: Situation) -> str:
    """Say that nothing keeps it; and if it waits all the same, where else to look."""
    waited = situation.now - situation.job.updated
    if waited < SOON_SECONDS:
        return "nothing keeps it: a dispatcher starts it within a second"
    return (
        f"nothing that the store knows of keeps it, and it has waited {span_text(waited)}; look "
        "whether its workers still speak (`shunter workers`), and at the dispatchers' logs"
    )


def _estimate(situation: Situation, kinds: Sequence[ReasonKind], facts: Facts) -> float | None:
    """Return in how many seconds the job starts if all goes on as it did lately; None if unknown.

    What comes first is waited for first: places and slots are filled from the front of the queue,
    one after the other, each for as long as runs took lately.
    """
    if not _PASSING.issuperset(kinds) or facts.is_ahead_cut:
        return None
    job, now, limits = situation.job, situation.now, situation.limits
    waits = [max(0.0, (job.wait_until or now) - now)]
    turns = facts.ahead + 1
    width = {ReasonKind.FULL: situation.slots, ReasonKind.OLDER: situation.slots}
    if limits is not None:
        width |= {ReasonKind.LIMIT: limits.per_key or 1, ReasonKind.TOTAL: limits.total or 1}
    for kind in kinds:
        if kind is ReasonKind.RATE and limits is not None and limits.rate is not None:
            bucket = limits.bucket(situation.lane or "") or ""
            due = max(0.0, situation.next_at.get(bucket, now) - now)
            waits.append(due + facts.ahead * limits.rate.interval)
        elif kind in width:
            if facts.run_mean is None:
                return None
            rivals = 0 if kind is ReasonKind.LIMIT else sum(situation.rivals.values())
            waits.append((turns + rivals) * facts.run_mean / max(1, width[kind]))
            if kind is ReasonKind.FULL:
                waits.append(facts.others_end_in)
    return max(waits)
