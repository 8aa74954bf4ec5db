"""Reads from the store what is needed to say why: so much and no more, however many jobs there are.

By index, each list up to a bound; the workers are read as every dispatcher reads them each second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from shunter.dispatch.pauses import pauses
from shunter.model.activity import activity_in, by_type
from shunter.model.explanation import Explanation
from shunter.model.job import Job, Status
from shunter.model.limits_record import LimitsRecord, limits_record
from shunter.model.pause import all_of
from shunter.model.record import RecordKind
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.waits import WaitKind
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.store.port import Store
from shunter.store.search import JobSearch
from shunter.why.answer import explain_waiting
from shunter.why.past import explain_ended, explain_running
from shunter.why.situation import Situation
from shunter.why.wording import Facts

COUNTED = 10_000
"""How far older jobs are counted."""

DEEP = 32
"""How many jobs before it are planned with, of each queue."""

MOST_RIVALS = 16
"""How many other types that its workers do are looked at."""

RIVALS_DEEP = 8
MINUTES_READ = 120
"""How many minutes of dispatchers tell how long runs took lately."""

EDGES_AT_ONCE = 1000
MOST_EDGES = 2000
SHOWN = 10
MOST_WORKERS_ASKED = 50
"""Of how many workers it is read what they hold."""


async def why(
    store: Store, job_id: str, *, now: float, scope: JobScope = EVERYTHING
) -> Explanation | None:
    """Say why a job does not run, who runs it, or where its time went; None if it is not there."""
    (job,) = await store.get([job_id])
    if job is None or not scope.shows(job):
        return None
    return await explain(store, job, now=now, scope=scope)


async def explain(
    store: Store, job: Job, *, now: float, scope: JobScope = EVERYTHING
) -> Explanation:
    """Say it of a job that was read a moment ago."""
    job = replace(job, payload=None, result=None)
    if job.status.is_final:
        return explain_ended(job, await _awaited_until(store, job))
    if job.status is Status.IN_PROGRESS:
        return explain_running(job, await _awaited_until(store, job), now=now)
    situation, facts = await read_situation(store, job, now=now, scope=scope)
    return explain_waiting(situation, facts)


async def read_situation(
    store: Store, job: Job, *, now: float, scope: JobScope = EVERYTHING
) -> tuple[Situation, Facts]:
    """Read all that decides about a job, and what is told beside it."""
    workers, held_back, records = await asyncio.gather(
        store.workers(), pauses(store), store.records(RecordKind.LIMITS, names=[job.type])
    )
    record = limits_record(records[0]) if records else None
    there = replace(job, lane=_lane(job, record))
    alive = [it for it in workers if not it.is_dead and not it.is_resigned]
    doing = tuple(it for it in alive if _does(it, job.type))
    minutes, look, rivals, waits, running = await asyncio.gather(
        store.records(RecordKind.ACTIVITY, limit=MINUTES_READ),
        store.queue_look(there, most=COUNTED, deep=DEEP),
        _rivals(store, job, doing),
        _pending(store, job),
        store.held_by([it.id for it in doing[:MOST_WORKERS_ASKED]]),
    )
    means = {name: it.runs.mean for name, it in by_type(activity_in(minutes)).items()}
    pending, is_pending_cut = waits
    situation = Situation(
        now=now,
        job=there,
        workers=doing,
        pauses=all_of(held_back),
        limits=None if record is None else record.limits,
        held=look.held,
        total_held=look.total_held,
        next_at=await _tokens(store, record, [there, *look.heads]),
        others=(*look.before, *look.heads, *rivals),
        is_cut=look.ahead > len(look.before),
    )
    facts = Facts(
        ahead=look.ahead,
        is_ahead_cut=look.ahead >= COUNTED,
        pauses=held_back,
        running=running,
        holders=look.holders,
        gone=[it for it in workers if it not in alive and _does(it, job.type)],
        known_types=frozenset(kind for it in alive for kind in it.types),
        awaited=[it for it in await store.get(pending[:SHOWN]) if it is not None],
        pending=len(pending),
        is_pending_cut=is_pending_cut,
        run_mean=_run_mean(means.get(job.type), running, job, now),
        others_end_in=_others_end_in(means, running, job, now),
        scope=scope,
    )
    return situation, facts


def _lane(job: Job, record: LimitsRecord | None) -> str | None:
    """Where a job waits; where one will that is not in the queue yet."""
    if record is None or (job.status is Status.QUEUED and job.wait_until is None):
        return job.lane
    return record.limits.lane(job.keys)


def _run_mean(lately: float | None, running: Sequence[Job], job: Job, now: float) -> float | None:
    """How long runs of a type take: as they did in the last hour, or as they have by now."""
    given = [it.execution.given_at for it in running if it.type == job.type]
    lasted = [now - at for at in given if at is not None]
    if lately is None or not lasted:
        return lately
    return max(lately, sum(lasted) / len(lasted))


def _others_end_in(
    means: Mapping[str, float | None], running: Sequence[Job], job: Job, now: float
) -> float:
    """When the first of the running jobs ends, if all are of other types than this one.

    A run that has lasted longer than others did lately may well last as long again.
    """
    if any(it.type == job.type for it in running):
        return 0.0
    left = []
    for it in running:
        lasted = max(0.0, now - (it.execution.given_at or now))
        mean = means.get(it.type) or 0.0
        left.append(mean - lasted if lasted < mean else lasted)
    return min(left, default=0.0)


def _does(worker: Worker, job_type: str) -> bool:
    return job_type in worker.types


async def _rivals(store: Store, job: Job, doing: Sequence[Worker]) -> list[Job]:
    """Read the first waiting jobs of other types that the same workers do.

    Those of limited types are left out: whether they may start is another question.
    """
    types = {kind for worker in doing for kind in worker.types} - {job.type}
    wanted = [
        JobSearch(status=Status.QUEUED, type=it, limit=RIVALS_DEEP, most=RIVALS_DEEP)
        for it in sorted(types)[:MOST_RIVALS]
    ]
    seen = await asyncio.gather(*map(store.search, wanted))
    return [rival for found in seen for rival in found.jobs if rival.lane is None]


async def _tokens(
    store: Store, record: LimitsRecord | None, jobs: Sequence[Job]
) -> dict[str, float]:
    """Read when the next tokens come of the buckets that jobs of one type take theirs from."""
    if record is None or record.limits.rate is None:
        return {}
    buckets = {record.limits.bucket(job.lane or "") or "" for job in jobs}
    names = {f"{jobs[0].type} {bucket}": bucket for bucket in buckets}
    found = await store.records(RecordKind.RATE, names=list(names))
    return {names[it.name]: float(it.document or b"0") for it in found}


async def _pending(store: Store, job: Job) -> tuple[list[str], bool]:
    """Read which jobs one that is parked still waits for, and whether there may be more."""
    if job.status is not Status.WAITING:
        return [], False
    edges, is_cut = await _edges(store, job)
    return [it.parent for it in edges if it.outcome is ParentOutcome.PENDING], is_cut


async def _edges(store: Store, job: Job) -> tuple[list[JobEdge], bool]:
    edges: list[JobEdge] = []
    while len(edges) < MOST_EDGES:
        after = edges[-1] if edges else None
        page = await store.parents([job.id], after=after, limit=EDGES_AT_ONCE)
        edges += page
        if len(page) < EDGES_AT_ONCE:
            return edges, False
    return edges, True


async def _awaited_until(store: Store, job: Job) -> float | None:
    """Read when the last of the jobs had ended that this one waited for, if it did."""
    has_children = job.waits is not None and job.waits.kind is WaitKind.CHILDREN
    if job.when is None and not has_children:
        return None
    edges, _ = await _edges(store, job)
    found = await store.get([it.parent for it in edges[:EDGES_AT_ONCE]])
    ends = [it.execution.ended or it.updated for it in found if it and it.status.is_final]
    return max(ends, default=None)
