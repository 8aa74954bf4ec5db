"""The store that forgets: jobs and workers in this process, for tests, ours and the user's.

It keeps the whole contract of `port.py` by the plainest means, so that it can serve as the
reference for the other stores. Its calls never wait: each is done before any other task runs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from shunter.errors import JobRefused, StoreError, UniqueKeyTaken
from shunter.model.job import Dispatch, Job, Status
from shunter.model.job_limits import JobLimits, texts_between
from shunter.model.journal import JOURNAL_PAGE_BYTES, EntryKind, JournalPage
from shunter.model.lane_claim import SORTED_AT_ONCE, LanePlace, LaneState
from shunter.model.lifecycle import occupying, started_at_once
from shunter.model.limits_record import LaneCount
from shunter.model.place_guess import LaneLook
from shunter.model.presence import KEPT_SECONDS, Presence
from shunter.model.queue_order import (
    AT_ONCE,
    UNDER_WAY,
    Head,
    alarm,
    deadline,
    favoured,
    is_ready,
    limit_place,
    place,
    rank,
    total_place,
)
from shunter.model.record import Record, RecordKind
from shunter.model.uniqueness import EarlierJobChange, NamedKey, answer_to, named_key
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome, answer_to_graph
from shunter.store import memory_lanes, memory_search
from shunter.store.memory_edges import MemoryEdges
from shunter.store.memory_journals import MemoryJournals
from shunter.store.port import Backlog, Batch, Claim, Committed, JobQuery
from shunter.store.search import JobSearch, JobsSeen, QueueDepth, QueueLook, RunSearch, RunsSeen

_PLACES: dict[str, Callable[[Job], str | None]] = {
    "_places": place,
    "_limit_places": limit_place,
    "_total_places": total_place,
}
"""By which function of a job the names come about that no two jobs may share."""


class MemoryStore:
    """Jobs and workers in dictionaries."""

    def __init__(self) -> None:
        self._is_open = False
        self._jobs: dict[str, Job] = {}  # without payloads, in the order of insertion
        self._seq: dict[str, int] = {}
        self._last_seq = 0
        self._payloads: dict[str, bytes | None] = {}
        self._keys: dict[NamedKey, str] = {}
        self._places: dict[str, str] = {}
        self._limit_places: dict[str, str] = {}
        self._total_places: dict[str, str] = {}
        self._alarms: dict[str, float] = {}  # of jobs that have one, which are few
        self._ready: dict[str, list[tuple[int, int, str]]] = {}  # by type: rank, seq, id
        self._lanes: dict[str, dict[str, list[tuple[int, int, str]]]] = {}  # likewise, by lane
        self._workers: dict[str, Worker] = {}
        self._edges = MemoryEdges()
        self._dispatchers: dict[str, Presence] = {}
        self._records: dict[tuple[RecordKind, str], Record] = {}
        self._journals = MemoryJournals()

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    async def commit(self, batch: Batch) -> Committed:
        await self.put_workers(batch.workers)
        await self.renew(batch.renewed, now=batch.now)
        entered = [self._journals.enter(it, self._jobs.get(it.job_id)) for it in batch.entries]
        replaced = await self.replace(batch.replacements)
        delivered = [self._deliver(job) for job in batch.deliveries]
        inserted = [self._insert(job, batch.otherwise.get(job.id)) for job in batch.inserts]
        graphs = [self._plant(graph) for graph in batch.graphs]
        self._edges.note(batch.outcomes)
        looks: dict[str, LaneLook] = {}
        claimed = [self._claim(claim, looks) for claim in batch.claims]
        return Committed(
            inserted=inserted,
            replaced=replaced,
            delivered=delivered,
            claimed=claimed,
            graphs=graphs,
            looks=looks,
            entered=entered,
        )

    async def insert(self, jobs: Sequence[Job]) -> list[Job | UniqueKeyTaken]:
        self._check_open()
        return [self._insert(job) for job in jobs]

    async def claim(self, claim: Claim) -> list[Job]:
        self._check_open()
        return self._claim(claim, {})

    def _claim(self, claim: Claim, looks: dict[str, LaneLook]) -> list[Job]:
        if claim.limits is not None:
            jobs, looks[claim.types[0]] = self._claim_lanes(claim, claim.limits)
            return jobs
        limit = max(claim.limit, 0)
        fronts = {kind: self._ready.get(kind, [])[:limit] for kind in claim.types}
        heads = [
            Head(kind, rank, seq, self._jobs[job_id].priority)
            for kind, front in fronts.items()
            for rank, seq, job_id in front[:1]
        ]
        turns = {head.seq: at for at, head in enumerate(favoured(heads, claim.types))}
        waiting = sorted(place for front in fronts.values() for place in front)
        chosen = sorted(waiting, key=lambda place: turns.get(place[1], len(turns)))
        sizes = accumulate((len(self._payloads[it] or b"") for _, _, it in chosen), initial=0)
        pairs = zip(chosen[:limit], sizes, strict=False)
        first = sorted(place for place, before in pairs if before < claim.most_bytes)
        return self._take(claim, {job_id: LanePlace() for _, _, job_id in first})

    def _take(self, claim: Claim, places: dict[str, LanePlace]) -> list[Job]:
        """Claim these jobs, and start them if there are slots, but for those on others' places."""
        dispatch = Dispatch(claim.dispatcher_id, claim.now, claim.expiry)
        taken: list[Job] = []
        for job_id, held in places.items():
            queued = self._jobs[job_id]
            job = replace(
                queued,
                status=Status.DISPATCHING,
                revision=queued.revision + 1,
                updated=claim.now,
                dispatcher=dispatch,
            )
            job = occupying(job, held)
            if claim.slots:
                job = started_at_once(job, claim.slots[len(taken)])
            if self._has_places(job):
                self._write(job)
                taken.append(self._with_payload(job))
        return taken

    def _claim_lanes(self, request: Claim, limits: JobLimits) -> tuple[list[Job], LaneLook]:
        """Take what the limits of a type allow."""
        (job_type,) = request.types
        is_more = False
        if (guess := request.fresh_guess) is not None:
            state = guess.state
        else:
            is_more = self._sort_into_lanes(job_type, limits)
            state = LaneState.read(job_type, limits, *self._places_of(job_type))
        for (kind, name), record in self._records.items():
            if kind is RecordKind.RATE and name.startswith(f"{job_type} "):
                state.next_at[name[len(job_type) + 1 :]] = float(record.document or b"0")
        claim = memory_lanes.chosen(
            request,
            state,
            self._lanes.get(job_type, {}),
            priority=lambda job_id: self._jobs[job_id].priority,
            size=lambda job_id: len(self._payloads[job_id] or b""),
        )
        jobs = self._take(request, claim.places)
        for bucket, next_at in claim.choice.buckets.items():
            name = f"{job_type} {bucket}"
            before = self._records.get((RecordKind.RATE, name))
            self._records[RecordKind.RATE, name] = Record(
                kind=RecordKind.RATE,
                name=name,
                revision=1 if before is None else before.revision + 1,
                document=repr(next_at).encode(),
            )
        look = claim.look([job.lane for job in jobs], is_rest=bool(self._waiting(job_type)))
        return jobs, replace(look, is_more=look.is_more or is_more)

    def _sort_into_lanes(self, job_type: str, limits: JobLimits) -> bool:
        """Sort what waits in no lane, or in one of another key; True if there may be more."""
        unsorted = self._ready.get(job_type, [])[:SORTED_AT_ONCE]
        for _, _, job_id in unsorted:
            self._sort(job_id, limits)
        by_lane = self._lanes.get(job_type, {})
        for lane in [it for it in by_lane if not limits.is_lane(it)][:1]:
            for _, _, job_id in by_lane[lane][:SORTED_AT_ONCE]:
                self._sort(job_id, limits)
        return len(unsorted) == SORTED_AT_ONCE

    def _sort(self, job_id: str, limits: JobLimits) -> None:
        job = self._jobs[job_id]
        self._write(replace(job, lane=limits.lane(job.keys)))

    def _places_of(self, job_type: str) -> tuple[list[str], list[str]]:
        """The names of the places of a type that are taken."""
        low, high = texts_between(job_type)
        return (
            [name for name in self._limit_places if low < name < high],
            [name for name in self._total_places if low < name < high],
        )

    async def lane_counts(self, *, limit: int) -> list[LaneCount]:
        self._check_open()
        running, waiting = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for job in self._jobs.values():
            if job.lane is not None and (job.status in UNDER_WAY or is_ready(job)):
                counted = running if job.status in UNDER_WAY else waiting
                counted[job.type, job.lane] += 1
        found = [
            LaneCount(
                type=kind, lane=lane, running=running[kind, lane], waiting=waiting[kind, lane]
            )
            for kind, lane in running | waiting
        ]
        found.sort(key=lambda it: (-it.running - it.waiting, it.type, it.lane))
        return found[: max(limit, 0)]

    async def replace(self, jobs: Sequence[Job]) -> list[bool]:
        self._check_open()
        return [self._replace(job) for job in jobs]

    async def get(self, ids: Sequence[str], *, payload: bool = False) -> list[Job | None]:
        self._check_open()
        found = (self._jobs.get(job_id) for job_id in ids)
        return [self._with_payload(job) if job and payload else job for job in found]

    async def journal(
        self,
        job_id: str,
        kind: EntryKind,
        *,
        after: str = "",
        most_bytes: int = JOURNAL_PAGE_BYTES,
    ) -> JournalPage:
        self._check_open()
        return self._journals.page(job_id, kind, after, most_bytes)

    async def revisions(self, ids: Sequence[str]) -> dict[str, int]:
        self._check_open()
        return {job_id: self._jobs[job_id].revision for job_id in ids if job_id in self._jobs}

    async def find(self, query: JobQuery) -> list[Job]:
        self._check_open()
        return memory_search.find(self._jobs, self._seq, query)

    async def search(self, wanted: JobSearch) -> JobsSeen:
        self._check_open()
        return memory_search.search(self._jobs.values(), self._seq, wanted)

    async def depths(self, *, most: int) -> list[QueueDepth]:
        self._check_open()
        return memory_search.depths(self._jobs.values(), most)

    async def queue_look(self, job: Job, *, most: int, deep: int) -> QueueLook:
        self._check_open()
        return memory_search.queue_look(self._jobs.values(), self._seq, job, most, deep)

    async def runs(self, wanted: RunSearch) -> RunsSeen:
        self._check_open()
        return memory_search.runs(self._jobs.values(), wanted)

    async def presences(self) -> list[Presence]:
        self._check_open()
        return [self._dispatchers[name] for name in sorted(self._dispatchers)]

    async def held_by(self, worker_ids: Iterable[str]) -> list[Job]:
        self._check_open()
        holders = set(worker_ids)
        return [
            job
            for job in self._jobs.values()
            if job.status is Status.IN_PROGRESS and job.execution.worker_id in holders
        ]

    async def alarms(self, *, now: float, limit: int) -> list[Job]:
        self._check_open()
        return [job for job in self._due(now) if not job.status.is_final][: max(limit, 0)]

    async def due_callbacks(self, *, now: float, limit: int) -> list[Job]:
        self._check_open()
        ended = [job for job in self._due(now) if job.status.is_final and not job.dependents]
        return [replace(job, result=None) for job in ended[: max(limit, 0)]]

    async def due_dependents(self, *, limit: int) -> list[Job]:
        self._check_open()
        ended = [job for job in self._due(AT_ONCE) if job.status.is_final]
        return [replace(job, result=None) for job in ended[: max(limit, 0)]]

    async def dependents(
        self, parents: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        self._check_open()
        return self._edges.of_parents(parents, after, max(limit, 0))

    async def parents(
        self, children: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        self._check_open()
        return self._edges.of_children(children, after, max(limit, 0))

    async def standings(self, children: Sequence[str]) -> dict[str, frozenset[ParentOutcome]]:
        self._check_open()
        return {child: self._edges.standing(child) for child in children}

    async def overdue(self, *, now: float, limit: int) -> list[Job]:
        self._check_open()
        late = sorted(
            (at, job.id)
            for job in self._jobs.values()
            if (at := deadline(job)) is not None and at <= now
        )
        return [self._jobs[job_id] for _, job_id in late[: max(limit, 0)]]

    async def next_alarm(self) -> float | None:
        self._check_open()
        return min(self._alarms.values(), default=None)

    async def backlog(self, *, is_ended: bool | None = None) -> list[Backlog]:
        self._check_open()
        counts = Counter(
            (job.type, job.status)
            for job in self._jobs.values()
            if is_ended in (None, job.status.is_final)
        )
        return [
            Backlog(type=kind, status=status, count=count)
            for (kind, status), count in sorted(counts.items())
        ]

    async def oldest(self) -> dict[str, float]:
        self._check_open()
        return {
            kind: min(self._jobs[job_id].created for _, _, job_id in waiting)
            for kind in [*self._ready, *self._lanes]
            if (waiting := self._waiting(kind))
        }

    def _waiting(self, job_type: str) -> list[tuple[int, int, str]]:
        """All jobs of a type that could be claimed now, in a lane or not."""
        laned = (turn for lane in self._lanes.get(job_type, {}).values() for turn in lane)
        return [*self._ready.get(job_type, []), *laned]

    async def purge(self, *, ended_before: float, limit: int) -> int:
        self._check_open()
        ended = [
            (at, job.id)
            for job in self._jobs.values()
            if (at := _ended(job)) is not None
            and at < ended_before
            and alarm(job) is None
            and not self._is_needed(job)
        ]
        doomed = sorted(ended)[: max(limit, 0)]
        for _, job_id in doomed:
            job = self._jobs.pop(job_id)
            del self._seq[job_id], self._payloads[job_id]
            self._journals.forget(job_id)
            if (key := named_key(job)) is not None:
                del self._keys[key]
            self._edges.forget(job_id)
        return len(doomed)

    def _is_needed(self, job: Job) -> bool:
        """True if a job that has not ended may still ask for this parent of it."""
        children = (self._jobs.get(child) for child in self._edges.children(job.id))
        return any(child is not None and not child.status.is_final for child in children)

    async def put_workers(self, workers: Sequence[Worker]) -> None:
        self._check_open()
        self._workers.update((worker.id, _bare(worker)) for worker in workers)

    async def renew(self, worker_ids: Iterable[str], *, now: float) -> None:
        self._check_open()
        for worker_id in set(worker_ids) & self._workers.keys():
            self._workers[worker_id] = replace(
                self._workers[worker_id], last_pinged=now, is_dead=False
            )

    async def workers(self, ids: Sequence[str] | None = None) -> list[Worker]:
        self._check_open()
        wanted = sorted(self._workers) if ids is None else ids
        held: dict[str | None, list[Job]] = {}
        for job in await self.held_by(wanted):
            held.setdefault(job.execution.worker_id, []).append(job)
        known = (self._workers[worker_id] for worker_id in wanted if worker_id in self._workers)
        return [
            replace(
                worker,
                jobs=tuple(job.id for job in held.get(worker.id, ())),
                places=tuple(
                    job.execution.place
                    for job in held.get(worker.id, ())
                    if job.execution.place is not None
                ),
            )
            for worker in known
        ]

    async def swap_workers(self, workers: Sequence[Worker]) -> list[bool]:
        self._check_open()
        return [self._swap_worker(worker) for worker in workers]

    async def remove_workers(self, workers: Sequence[Worker]) -> None:
        self._check_open()
        for worker in workers:
            stored = self._workers.get(worker.id)
            if stored is not None and stored.revision == worker.revision:
                del self._workers[worker.id]

    async def meet(self, presence: Presence) -> list[Presence]:
        self._check_open()
        since = presence.clock - KEPT_SECONDS
        self._dispatchers[presence.dispatcher_id] = presence
        self._dispatchers = {k: p for k, p in self._dispatchers.items() if p.clock >= since}
        return list(self._dispatchers.values())

    async def records(
        self,
        kind: RecordKind,
        *,
        before: str | None = None,
        limit: int | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Record]:
        self._check_open()
        known = (n for k, n in self._records if k is kind) if names is None else {*names}
        there = (n for n in known if (kind, n) in self._records)
        found = [n for n in sorted(there, reverse=True) if before is None or n < before]
        return [self._records[kind, name] for name in found[:limit]]

    async def swap_records(self, records: Sequence[Record]) -> list[bool]:
        self._check_open()
        return [self._swap_record(record) for record in records]

    async def watch(self, notify: Callable[[], None]) -> None:
        """Nobody else can write here."""

    def _swap_record(self, record: Record) -> bool:
        name = (record.kind, record.name)
        stored = self._records.get(name)
        if stored is None and record.document is None:
            return True
        if (stored.revision if stored else 0) != record.revision - 1:
            return False
        if record.document is None:
            del self._records[name]
        else:
            self._records[name] = record
        return True

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("the memory store is not open; call open() first, close() last")

    def _insert(self, job: Job, otherwise: Job | None = None) -> Job | UniqueKeyTaken:
        key = named_key(job)
        holder = job.id if job.id in self._jobs else self._keys.get(key) if key else None
        if holder is None:
            if otherwise is not None and not self._has_places(job):
                job = otherwise
            self._last_seq += 1
            self._seq[job.id] = self._last_seq
            self._payloads[job.id] = job.payload
            if key is not None:
                self._keys[key] = job.id
            self._write(job)
            return job
        answer = answer_to(job, self._with_payload(self._jobs[holder]))
        if not isinstance(answer, EarlierJobChange):
            return answer
        changed = answer.job
        if answer.has_payload:
            self._payloads[changed.id] = changed.payload
        if changed.unique_key is None and key is not None:
            del self._keys[key]
        self._write(changed)
        return self._with_payload(changed) if answer.is_answer else self._insert(job, otherwise)

    def _plant(self, graph: JobGraph) -> list[Job] | JobRefused:
        """Insert a graph, or refuse all of it."""
        stored = {job.id: self._jobs[job.id] for job in graph.jobs if job.id in self._jobs}
        if stored:
            return answer_to_graph(graph, {it: self._with_payload(stored[it]) for it in stored})
        known = {name: self._jobs[name] for name in graph.outside if name in self._jobs}
        if (refusal := graph.refusal(known)) is not None:
            return refusal
        for name in graph.outside:
            job = known[name]
            is_parent = name in graph.parents
            self._write(
                replace(job, revision=job.revision + 1, dependents=job.dependents or is_parent)
            )
        for job in graph.jobs:
            self._insert(job)
        self._edges.add(graph.edges)
        return list(graph.jobs)

    def _replace(self, job: Job) -> bool:
        stored = self._jobs.get(job.id)
        if stored is None or stored.status.is_final or stored.revision != job.revision - 1:
            return False
        if not self._has_places(job):
            return False
        self._write(job)
        return True

    def _has_places(self, job: Job) -> bool:
        """True if no place that a job is to have is another's."""
        for name, wanted in _PLACES.items():
            taken: dict[str, str] = getattr(self, name)
            if (text := wanted(job)) is not None and taken.get(text, job.id) != job.id:
                return False
        return True

    def _deliver(self, job: Job) -> bool:
        stored = self._jobs.get(job.id)
        if stored is None or not stored.status.is_final or stored.revision != job.revision - 1:
            return False
        delivered = replace(
            stored, callback=job.callback, dependents=job.dependents, revision=job.revision
        )
        self._jobs[job.id] = delivered
        self._set_alarm(delivered)
        return True

    def _swap_worker(self, worker: Worker) -> bool:
        stored = self._workers.get(worker.id)
        if worker.revision - 1 != (0 if stored is None else stored.revision):
            return False
        self._workers[worker.id] = _bare(worker)
        return True

    def _write(self, job: Job) -> None:
        """Store the job, and keep the queue of its type to those that may be claimed."""
        before = self._jobs.get(job.id)
        turn = (rank(job), self._seq[job.id], job.id)
        if before and is_ready(before):
            queue = self._queue(before)
            del queue[bisect_left(queue, turn)]
            if before.lane is not None and not queue:
                del self._lanes[job.type][before.lane]
        if is_ready(job):
            insort(self._queue(job), turn)
        for name, held in _PLACES.items():
            places: dict[str, str] = getattr(self, name)
            if before and (left := held(before)) is not None:
                del places[left]
            if (taken := held(job)) is not None:
                places[taken] = job.id
        self._jobs[job.id] = replace(job, payload=None, parents=b"")
        self._set_alarm(job)

    def _queue(self, job: Job) -> list[tuple[int, int, str]]:
        """Where a job waits: in the queue of its type, or in its lane."""
        if job.lane is None:
            return self._ready.setdefault(job.type, [])
        return self._lanes.setdefault(job.type, {}).setdefault(job.lane, [])

    def _with_payload(self, job: Job) -> Job:
        return replace(job, payload=self._payloads[job.id])

    def _due(self, now: float) -> list[Job]:
        """The jobs whose alarm has come, the earliest first."""
        due = sorted((at, job_id) for job_id, at in self._alarms.items() if at <= now)
        return [self._jobs[job_id] for _, job_id in due]

    def _set_alarm(self, job: Job) -> None:
        at = alarm(job)
        if at is None:
            self._alarms.pop(job.id, None)
        else:
            self._alarms[job.id] = at


def _bare(worker: Worker) -> Worker:
    """A record as it is stored: its jobs are read from the jobs themselves."""
    return replace(worker, jobs=(), places=())


def _ended(job: Job) -> float | None:
    """When a final job ended; one that was never closed properly counts from its last change."""
    if not job.status.is_final:
        return None
    return job.updated if job.execution.ended is None else job.execution.ended
