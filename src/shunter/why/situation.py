"""All that decides whether one job starts, as a value small enough to plan with again and again.

Of a million jobs it has the one, some that go before it, and numbers. What removes an obstacle
returns another situation. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from shunter.model.job import Job
from shunter.model.job_limits import JobLimits, Limit
from shunter.model.pause import NO_PAUSES, Pauses, PauseTarget
from shunter.model.worker import Handler, Worker, WorkerKind

ANOTHER = "(another)"
"""The id of a worker that is not there."""


class Situation(Struct, frozen=True, kw_only=True):
    """One job at a moment.

    `workers` are those that do its type and are not gone, each with what it holds. `held` says how
    many places are taken of each lane of its type, `total_held` of the type, and `next_at` when
    the next token of a bucket comes. `others` are waiting jobs that may go before it, of its type
    and of others; `is_cut` says that more of its own queue do than these.
    """

    now: float
    job: Job
    workers: tuple[Worker, ...] = ()
    pauses: Pauses = NO_PAUSES
    limits: JobLimits | None = None
    held: Mapping[str, int] = {}
    total_held: int = 0
    next_at: Mapping[str, float] = {}
    others: tuple[Job, ...] = ()
    is_cut: bool = False

    @property
    def lane(self) -> str | None:
        """Where the job waits, or will."""
        return None if self.limits is None else self.limits.lane(self.job.keys)

    @property
    def serving(self) -> list[Worker]:
        """The workers that get new jobs of its type."""
        return [worker for worker in self.workers if not self.pauses.drains(worker)]

    @property
    def rivals(self) -> Counter[str]:
        """How many jobs of other types wait for the same workers, as far as they are here."""
        return Counter(it.type for it in self.others if it.type != self.job.type)

    @property
    def slots(self) -> int:
        """How many jobs of its type could run at once, as far as workers go."""
        return sum(worker.max_jobs for worker in self.serving)


def free_slots(worker: Worker) -> int:
    """Return how many more jobs a worker may be given."""
    return max(0, worker.max_jobs - len(worker.jobs))


def with_slots(situation: Situation, slots: int) -> Situation:
    """So many slots more: those of one more worker, which does nothing but this type."""
    new = Worker(
        id=ANOTHER,
        kind=WorkerKind.FULL,
        hostname="",
        port=0,
        handlers=(Handler(situation.job.type),),
        max_jobs=slots,
        registered=situation.now,
        last_pinged=situation.now,
    )
    return replace(situation, workers=(*situation.workers, new))


def without_pause(situation: Situation) -> Situation:
    pauses = situation.pauses
    types = pauses.types - {situation.job.type}
    return replace(situation, pauses=replace(pauses, types=types))


def without_drain(situation: Situation, target: PauseTarget, name: str) -> Situation:
    """Give jobs again to a worker, or to all workers of a version."""
    pauses = situation.pauses
    if target is PauseTarget.WORKER:
        pauses = replace(pauses, workers=pauses.workers - {name})
    else:
        pauses = replace(pauses, versions=pauses.versions - {name})
    return replace(situation, pauses=pauses)


def with_places(situation: Situation, count: int) -> Situation:
    """So many more of each key may run at once."""
    limits = situation.limits
    assert limits is not None
    assert limits.limit is not None
    assert limits.per_key is not None
    used = max(limits.per_key, situation.held.get(situation.lane or "", 0))
    limit = replace(limits.limit, at_once=used + count)
    return replace(situation, limits=replace(limits, limit=limit))


def with_total(situation: Situation, count: int) -> Situation:
    """So many more of the type may run at once."""
    limits = situation.limits
    assert limits is not None
    assert limits.limit is not None
    assert limits.total is not None
    wanted = max(limits.total, situation.total_held) + count
    limit: Limit = limits.limit
    if limit.by or limit.at_once is None:
        limit = replace(limit, total=wanted)
    else:
        limit = replace(limit, at_once=wanted)
    return replace(situation, limits=replace(limits, limit=limit))


def with_token(situation: Situation) -> Situation:
    """A token is there for the job, as it will be when it comes."""
    bucket = situation.limits.bucket(situation.lane or "") if situation.limits else None
    tokens = {name: at for name, at in situation.next_at.items() if name != bucket}
    return replace(situation, next_at=tokens)


def first_in_line(situation: Situation) -> Situation:
    """Nobody else waits."""
    return replace(situation, others=(), is_cut=False)
