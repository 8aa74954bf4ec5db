"""What may keep a job, in the order in which it is looked for, and how each is taken away.

Which of them do keep it is found by planning: all are taken away, and then put back one by one; one
without which the job starts all the same keeps nothing. So what is left is enough and nothing in
it can be spared, whatever the planner's rules are. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from shunter.model import lifecycle
from shunter.model.explanation import ReasonKind
from shunter.model.job import Status
from shunter.model.queue_order import alarm
from shunter.model.waits import WaitKind
from shunter.why.rehearsal import settled, starts
from shunter.why.situation import (
    Situation,
    first_in_line,
    with_places,
    with_slots,
    with_token,
    with_total,
    without_pause,
)

_WAITS = {
    WaitKind.SLEEP: ReasonKind.SLEEP,
    WaitKind.SIGNAL: ReasonKind.SIGNAL,
    WaitKind.CHILDREN: ReasonKind.CHILDREN,
}


class Obstacle(Struct, frozen=True):
    """One thing that may keep a job: what to call it if it is there, and how to take it away."""

    kind: Callable[[Situation], ReasonKind | None]
    removed: Callable[[Situation], Situation]


def _unready(situation: Situation) -> ReasonKind | None:
    job = situation.job
    match job.status:
        case Status.DISPATCHING:
            return ReasonKind.CLAIMED
        case Status.WAITING:
            due = alarm(job)
            if due is not None and due <= situation.now:
                return None
            return ReasonKind.PARENTS if job.waits is None else _WAITS[job.waits.kind]
        case _:
            is_later = job.wait_until is not None and job.wait_until > situation.now
            return ReasonKind.TIME if is_later else None


def readied(situation: Situation) -> Situation:
    """The same when the job may run: later, or after what it waits for has happened."""
    job, now = situation.job, situation.now
    waits_for_time = _unready(situation) in (ReasonKind.SLEEP, ReasonKind.TIME, ReasonKind.CLAIMED)
    if job.status is Status.WAITING and not waits_for_time:
        job = lifecycle.woken(job, now=now)
    return replace(situation, job=job, now=max(now, alarm(job) or now))


def _paused(situation: Situation) -> ReasonKind | None:
    return ReasonKind.PAUSED if situation.job.type in situation.pauses.types else None


def _without_room(situation: Situation) -> ReasonKind:
    if not situation.workers:
        return ReasonKind.UNSERVED
    return ReasonKind.FULL if situation.serving else ReasonKind.DRAINED


def _limited(situation: Situation) -> ReasonKind | None:
    limits = situation.limits
    return None if limits is None or limits.per_key is None else ReasonKind.LIMIT


def _limited_in_total(situation: Situation) -> ReasonKind | None:
    limits = situation.limits
    return None if limits is None or limits.total is None else ReasonKind.TOTAL


def _rated(situation: Situation) -> ReasonKind | None:
    limits = situation.limits
    return None if limits is None or limits.rate is None else ReasonKind.RATE


def _behind(situation: Situation) -> ReasonKind | None:
    return ReasonKind.OLDER if situation.others or situation.is_cut else None


OBSTACLES = (
    Obstacle(_unready, readied),
    Obstacle(_paused, without_pause),
    Obstacle(_without_room, lambda it: with_slots(it, 1)),
    Obstacle(_limited, lambda it: with_places(it, 1)),
    Obstacle(_limited_in_total, lambda it: with_total(it, 1)),
    Obstacle(_rated, with_token),
    Obstacle(_behind, first_in_line),
)


class Hindrance(Struct, frozen=True):
    """What keeps a job: all of `kinds`, in a situation in which nothing else can start.

    None of them where it would not start without any of them either.
    """

    situation: Situation
    kinds: tuple[ReasonKind, ...]


def kept_by(situation: Situation) -> Hindrance | None:
    """Return what keeps the job; None if it starts anyway."""
    left = settled(situation)
    if left is None:
        return None
    there = [it for it in OBSTACLES if it.kind(left) is not None]
    if not starts(without(left, there)):
        return Hindrance(left, ())
    needed, is_less = list(there), True
    while is_less:  # what one of them gives away may have been all that made another one needed
        is_less = False
        for obstacle in reversed(needed):
            fewer = [it for it in needed if it is not obstacle]
            if starts(without(left, fewer)):
                needed, is_less = fewer, True
    return Hindrance(left, tuple(kind for it in needed if (kind := it.kind(left)) is not None))


def without(situation: Situation, obstacles: Iterable[Obstacle]) -> Situation:
    """Return the situation without these obstacles."""
    for obstacle in obstacles:
        situation = obstacle.removed(situation)
    return situation
