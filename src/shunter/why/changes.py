"""The smallest single change that would start a job, found by planning again with it. Pure.

Each change that people can make is tried on the situation, the ones that cost least first; where it
is a number, the smallest that will do is looked for.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from shunter.model.explanation import ChangeKind, ReasonKind, SmallestChange
from shunter.model.job_limits import limit_faults
from shunter.model.pause import PauseTarget
from shunter.why.obstacles import readied
from shunter.why.rehearsal import starts
from shunter.why.situation import (
    Situation,
    with_places,
    with_slots,
    with_total,
    without_drain,
    without_pause,
)
from shunter.why.wording import slots_text, span_text

_UNREADY = {
    ReasonKind.TIME: ChangeKind.WAIT,
    ReasonKind.SLEEP: ChangeKind.WAIT,
    ReasonKind.CLAIMED: ChangeKind.WAIT,
    ReasonKind.PARENTS: ChangeKind.JOBS,
    ReasonKind.CHILDREN: ChangeKind.JOBS,
    ReasonKind.SIGNAL: ChangeKind.SIGNAL,
}

Candidate = tuple[SmallestChange, Situation]


def smallest_change(situation: Situation, kinds: Sequence[ReasonKind]) -> SmallestChange | None:
    """Return the one change that would start the job; None if it takes more than one."""
    for change, after in _candidates(situation, kinds):
        if starts(after):
            return change
    return None


def _candidates(situation: Situation, kinds: Sequence[ReasonKind]) -> Iterator[Candidate]:
    """Yield what could be changed about what keeps the job."""
    for kind in kinds:
        if kind in _UNREADY:
            yield _readied(situation, kind)
    if ReasonKind.PAUSED in kinds:
        yield _resumed(situation)
    if ReasonKind.DRAINED in kinds or ReasonKind.FULL in kinds:
        yield from _undrained(situation)
    if ReasonKind.UNSERVED in kinds:
        yield from _least(situation, with_slots, _served)
    if ReasonKind.DRAINED in kinds or ReasonKind.FULL in kinds:
        yield from _least(situation, with_slots, _with_slots)
    if ReasonKind.LIMIT in kinds:
        yield from _least(situation, with_places, _with_places)
    if ReasonKind.TOTAL in kinds:
        yield from _least(situation, with_total, _with_total)
    if ReasonKind.RATE in kinds:
        yield _with_token(situation)
        yield _without_rate(situation)


def _least(
    situation: Situation,
    changed: Callable[[Situation, int], Situation],
    change: Callable[[Situation, int, Situation], SmallestChange | None],
) -> Iterator[Candidate]:
    """Yield the change by the smallest number that starts the job, if any does."""
    low, high = 0, 1
    if not starts(changed(situation, 1)):
        low, high = 1, len(situation.others) + 1
        if high == 1 or situation.is_cut or not starts(changed(situation, high)):
            return
    while high - low > 1:
        middle = (low + high) // 2
        if starts(changed(situation, middle)):
            high = middle
        else:
            low = middle
    after = changed(situation, high)
    if (found := change(situation, high, after)) is not None:
        yield found, after


def _readied(situation: Situation, kind: ReasonKind) -> Candidate:
    job, after = situation.job, readied(situation)
    wait = span_text(max(0.0, after.now - situation.now))
    match _UNREADY[kind]:
        case ChangeKind.SIGNAL:
            signal = job.waits.signal if job.waits else ""
            return SmallestChange(
                kind=ChangeKind.SIGNAL,
                text=f"send it the signal {signal!r}",
                target=signal,
                command=f"shunter signal {job.id} {shlex.quote(signal)}",
            ), after
        case ChangeKind.JOBS:
            return SmallestChange(
                kind=ChangeKind.JOBS, text="wait until the jobs that it waits for have ended"
            ), after
        case _:
            text = f"wait {wait}; it starts by itself then"
            return SmallestChange(kind=ChangeKind.WAIT, text=text, at=after.now), after


def _resumed(situation: Situation) -> Candidate:
    job_type = situation.job.type
    return SmallestChange(
        kind=ChangeKind.RESUME,
        text=f"resume the type {job_type}",
        target=job_type,
        command=f"shunter resume {job_type}",
    ), without_pause(situation)


def _undrained(situation: Situation) -> Iterator[Candidate]:
    """Yield for each drain that concerns workers of the type what it is to end it."""
    pauses = situation.pauses
    by_worker = [it.id for it in situation.workers if it.id in pauses.workers]
    for name in by_worker:
        yield _drain_ended(situation, PauseTarget.WORKER, name, f"worker {name}", name)
    for name in sorted({it.version for it in situation.workers} & pauses.versions):
        whom = f"all workers of version {name}"
        yield _drain_ended(situation, PauseTarget.VERSION, name, whom, f"--version {name}")


def _drain_ended(
    situation: Situation, target: PauseTarget, name: str, whom: str, argument: str
) -> Candidate:
    return SmallestChange(
        kind=ChangeKind.UNDRAIN,
        text=f"give jobs again to {whom}",
        target=name,
        command=f"shunter drain {argument} --undo",
    ), without_drain(situation, target, name)


def _served(situation: Situation, count: int, _: Situation) -> SmallestChange:
    job_type = situation.job.type
    return SmallestChange(
        kind=ChangeKind.SERVE,
        text=f"start a worker that does {job_type}, with {slots_text(count)}",
        target=job_type,
        value=count,
    )


def _with_slots(situation: Situation, count: int, _: Situation) -> SmallestChange:
    return SmallestChange(
        kind=ChangeKind.SLOTS,
        text=f"{slots_text(count, 'more ')} for {situation.job.type}",
        target=situation.job.type,
        value=count,
    )


def _with_places(situation: Situation, count: int, after: Situation) -> SmallestChange | None:
    before, wanted = situation.limits, after.limits
    assert before is not None
    assert wanted is not None
    if any(limit_faults(wanted)):
        return None
    number, job_type = wanted.per_key or 0, situation.job.type
    return SmallestChange(
        kind=ChangeKind.LIMIT,
        text=f"limit {situation.lane} {number:,} instead of {before.per_key:,}",
        target=situation.lane or "",
        value=number,
        command=f"shunter limits set {job_type} --limit {number}",
    )


def _with_total(situation: Situation, count: int, after: Situation) -> SmallestChange | None:
    before, wanted = situation.limits, after.limits
    assert before is not None
    assert wanted is not None
    if any(limit_faults(wanted)):
        return None
    number, job_type = wanted.total or 0, situation.job.type
    is_total = wanted.limit is not None and wanted.limit.total is not None
    option = "--total" if is_total else "--limit"
    return SmallestChange(
        kind=ChangeKind.TOTAL,
        text=f"limit {job_type} {number:,} instead of {before.total:,}",
        target=job_type,
        value=number,
        command=f"shunter limits set {job_type} {option} {number}",
    )


def _with_token(situation: Situation) -> Candidate:
    limits = situation.limits
    bucket = None if limits is None else limits.bucket(situation.lane or "")
    due = situation.next_at.get(bucket or "", situation.now)
    text = f"wait {span_text(max(0.0, due - situation.now))}; it starts by itself then"
    after = replace(situation, now=max(situation.now, due))
    return SmallestChange(kind=ChangeKind.WAIT, text=text, at=due), after


def _without_rate(situation: Situation) -> Candidate:
    limits, job_type = situation.limits, situation.job.type
    assert limits is not None
    return SmallestChange(
        kind=ChangeKind.RATE,
        text=f"no rate for {job_type}",
        target=job_type,
        value=0,
        command=f"shunter limits set {job_type} --rate 0",
    ), replace(situation, limits=replace(limits, rate=None))
