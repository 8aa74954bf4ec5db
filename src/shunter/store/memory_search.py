"""Searches in memory: by the plainest means, as the reference for the other stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf
from typing import Any

from msgspec.structs import replace

from shunter.model.job import Job, Status
from shunter.model.queue_order import UNDER_WAY, is_ready, limit_place, rank, total_place
from shunter.store.port import JobQuery
from shunter.store.search import (
    COUNTED_OF_A_RUN,
    LANE_DEEP,
    JobSearch,
    JobsSeen,
    QueueDepth,
    QueueLook,
    RunSearch,
    RunsSeen,
    RunSummary,
)


def find(jobs: dict[str, Job], seqs: Mapping[str, int], query: JobQuery) -> list[Job]:
    """List jobs, newest first."""
    below = inf
    if query.before is not None:
        last = jobs.get(query.before)
        is_there = last is not None and query.namespace in (None, last.namespace)
        below = seqs[query.before] if is_there else 0
    matching = (
        replace(job, result=None)
        for job in reversed(jobs.values())
        if seqs[job.id] < below
        and query.status in (None, job.status)
        and query.type in (None, job.type)
        and query.worker_id in (None, job.execution.worker_id)
        and query.namespace in (None, job.namespace)
        and query.run in (None, job.run)
    )
    return list(islice(matching, max(query.limit, 0)))


def search(jobs: Iterable[Job], seqs: Mapping[str, int], wanted: JobSearch) -> JobsSeen:
    """List jobs; each line that a search may go along has a position for every job in it."""
    line = sorted(
        (it for it in jobs if _is_in_line(it, wanted)), key=lambda it: _at(it, seqs, wanted)
    )
    if wanted.after is not None:
        line = [job for job in line if _is_behind(_at(job, seqs, wanted), wanted)]
    found: list[Job] = []
    for looked_at, job in enumerate(line, 1):
        if wanted.holds(job):
            found.append(replace(job, result=None))
        is_full = len(found) == wanted.limit or (looked_at == wanted.most and not wanted.is_keyed)
        if is_full and (looked_at < len(line) or len(found) == wanted.limit):
            return JobsSeen(jobs=found, next=_text(job, seqs, wanted), until=job.created)
    return JobsSeen(jobs=found)


def depths(jobs: Iterable[Job], most: int) -> list[QueueDepth]:
    """Count what has not ended, by type."""
    by_type: dict[str, list[Job]] = {}
    for job in jobs:
        if not job.status.is_final:
            by_type.setdefault(job.type, []).append(job)
    return [_depth(kind, by_type[kind], most) for kind in sorted(by_type)]


def queue_look(
    jobs: Iterable[Job], seqs: Mapping[str, int], job: Job, most: int, deep: int
) -> QueueLook:
    """Look at what is around a job."""
    mine = (rank(job), seqs.get(job.id, 0))
    lane = job.lane
    of_type = [replace(it, result=None) for it in jobs if it.type == job.type and it.id != job.id]
    waiting = sorted((rank(it), seqs[it.id], it.id) for it in of_type if is_ready(it))
    by_id = {it.id: it for it in of_type}
    lanes: dict[str | None, list[tuple[int, int, Job]]] = {}
    for place, seq, name in waiting:
        lanes.setdefault(by_id[name].lane, []).append((place, seq, by_id[name]))
    before = [it for place, seq, it in lanes.get(lane, []) if (place, seq) < mine]
    others = sorted(found[:LANE_DEEP] for it, found in lanes.items() if it not in (None, lane))
    held: dict[str, int] = {}
    for it in of_type:
        if limit_place(it) is not None:
            held[it.lane or ""] = held.get(it.lane or "", 0) + 1
    placed = [it for it in of_type if limit_place(it) is not None or total_place(it) is not None]
    placed.sort(key=lambda it: (it.lane != lane, seqs[it.id]))
    return QueueLook(
        ahead=min(most, len(before)),
        before=before[:deep],
        heads=[it for found in others[:deep] for *_, it in found] if lane is not None else [],
        held=held,
        total_held=sum(total_place(it) is not None for it in of_type),
        holders=placed[:deep],
    )


def runs(jobs: Iterable[Job], wanted: RunSearch) -> RunsSeen:
    """List runs by falling ids."""
    by_run: dict[str, list[Job]] = {}
    for job in jobs:
        if job.run is not None and (wanted.after is None or job.run < wanted.after):
            by_run.setdefault(job.run, []).append(job)
    found: list[RunSummary] = []
    looked_at, last = 0, wanted.after
    for name in sorted(by_run, reverse=True):
        if len(found) == wanted.limit or looked_at >= wanted.most:
            return RunsSeen(runs=found, next=last)
        counted = by_run[name][:COUNTED_OF_A_RUN]
        looked_at, last = looked_at + len(counted), name
        seen = [it for it in counted if wanted.namespace in (None, it.namespace)]
        if seen and wanted.workflow in (None, seen[0].workflow):
            found.append(_summary(name, seen, is_cut=len(counted) < len(by_run[name])))
    return RunsSeen(runs=found)


def _summary(name: str, jobs: list[Job], *, is_cut: bool) -> RunSummary:
    is_over = all(job.status.is_final for job in jobs)
    return RunSummary(
        id=name,
        workflow=jobs[0].workflow,
        created=jobs[0].created,
        counts=dict(Counter(job.status for job in jobs)),
        ended=max(job.execution.ended or job.updated for job in jobs) if is_over else None,
        is_cut=is_cut,
    )


def _depth(kind: str, jobs: list[Job], most: int) -> QueueDepth:
    queued = [job for job in jobs if job.status is Status.QUEUED]
    waiting = [job for job in queued if job.wait_until is None]
    return QueueDepth(
        type=kind,
        waiting=min(most, len(waiting)),
        delayed=min(most, len(queued) - len(waiting)),
        running=min(most, sum(job.status in UNDER_WAY for job in jobs)),
        parked=min(most, sum(job.status is Status.WAITING for job in jobs)),
        oldest=min(waiting, key=rank).created if waiting else None,
    )


def _is_in_line(job: Job, wanted: JobSearch) -> bool:
    """True if a search looks at a job: an index has led to it."""
    if wanted.is_keyed:
        return JobSearch(key=wanted.key, key_prefix=wanted.key_prefix).holds(job)
    if wanted.is_of_few:
        return JobSearch(run=wanted.run, ids=wanted.ids).holds(job)
    return JobSearch(status=wanted.status, is_delayed=wanted.is_delayed).holds(job)


def _at(job: Job, seqs: Mapping[str, int], wanted: JobSearch) -> tuple[Any, ...]:
    seq = seqs[job.id]
    if wanted.is_keyed:
        return (tuple(-ord(letter) for letter in job.unique_key or ""),)
    if not wanted.is_waiting and not wanted.is_delayed_line:
        return (-seq,)
    return (job.wait_until if wanted.is_delayed else rank(job)), seq


def _text(job: Job, seqs: Mapping[str, int], wanted: JobSearch) -> str:
    if wanted.is_keyed:
        return job.unique_key or ""
    at = _at(job, seqs, wanted)
    return str(-at[0]) if len(at) == 1 else f"{at[0]} {at[1]}"


def _is_behind(at: tuple[Any, ...], wanted: JobSearch) -> bool:
    assert wanted.after is not None
    if wanted.is_keyed:
        return at > (tuple(-ord(letter) for letter in wanted.after),)
    first, _, second = wanted.after.partition(" ")
    if not second:
        return bool(at > (-int(first),))
    return bool(at > (float(first) if wanted.is_delayed else int(first), int(second)))
