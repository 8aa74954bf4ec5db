"""What is written: functions of a connection, free of threads and loops.

A batch goes in by few statements and nearly always as a whole; where rows were refused, it is
asked afterwards which ones, by the marks that the statement left. Nothing is done twice, and
nothing is undone.
"""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

import msgspec

from shunter.errors import UniqueKeyTaken
from shunter.model.job import Dispatch, Job
from shunter.model.job_limits import JobLimits, texts_between
from shunter.model.lifecycle import WorkerSlot, started_at_once
from shunter.model.presence import KEPT_SECONDS, Presence
from shunter.model.queue_order import Head, alarm, favoured
from shunter.model.uniqueness import EarlierJobChange, answer_to, named_key
from shunter.store.port import Claim
from shunter.store.sqlite import reads, statements
from shunter.store.sqlite.rows import (
    ClaimMark,
    JobRow,
    Parameters,
    as_json,
    inserted,
    replaced,
)

_decode_numbers = msgspec.json.Decoder(list[int]).decode
_decode_heads = msgspec.json.Decoder(list[tuple[str, int, int, int]]).decode
_decode_ids = msgspec.json.Decoder(list[str]).decode

_NULL = float("nan")

MOST_STARTS_ALIKE = 8
"""Up to this many kinds of starts in a claim are written by a statement each."""


def insert(
    connection: sqlite3.Connection,
    jobs: Sequence[Job],
    rows: Sequence[Parameters],
    otherwise: Mapping[str, Job] | None = None,
) -> list[Job | UniqueKeyTaken]:
    """Insert jobs, whose rows these are, and say for each what is stored now.

    `otherwise` has those that are stored in another way where their place is taken.
    """
    answers: list[Job | UniqueKeyTaken] = []
    for start, chunk in chunks(rows):
        offered = jobs[start : start + len(chunk)]
        cursor = execute(connection, statements.insert_jobs, chunk)
        count = cursor.rowcount
        # Where no seq is given, SQLite takes the one after the highest: they are consecutive.
        before = (cursor.lastrowid or 0) - count
        new: Sequence[int] = range(len(chunk))
        if count < len(chunk):
            text = reads.value(connection, statements.INSERTED_AFTER, before) if count else "[]"
            new = _decode_numbers(text)
        bodies = [(seq, offered[at].payload) for seq, at in enumerate(new, before + 1)]
        for _, some in chunks(bodies):
            execute(connection, statements.insert_payloads, some)
        if count == len(chunk):
            answers += offered
        else:
            answers += _answers(connection, offered, set(new), otherwise or {})
    return answers


def claim(connection: sqlite3.Connection, request: Claim) -> list[Job]:
    """Take the front of the queue for a dispatcher."""
    types = list(dict.fromkeys(request.types))
    if not types or request.limit <= 0:
        return []
    made = Dispatch(request.dispatcher_id, request.now, request.expiry)
    front = _front(connection, types, request.limit)
    seqs: list[int] = []

    def within_bytes(rows: list[JobRow]) -> list[JobRow]:
        """Leave in the queue what is too much for one claim; whose turn it is comes first."""
        sizes = {row.seq: row.payload_bytes for row in rows}
        if sum(sizes.values()) >= request.most_bytes:
            before = accumulate((sizes[seq] for seq in front), initial=0)
            pairs = zip(front, before, strict=False)
            front[:] = [seq for seq, taken in pairs if taken < request.most_bytes]
        kept = set(front)
        rows = [row for row in rows if row.seq in kept]
        seqs.extend(row.seq for row in rows)
        return rows

    jobs = reads.jobs(
        connection,
        statements.NUMBERED,
        (as_json(front),),
        order="rank, jobs.seq",
        payload=True,
        claim=made,
        keep=within_bytes,
    )
    if jobs and request.slots:
        jobs = [started_at_once(job, slot) for job, slot in zip(jobs, request.slots, strict=False)]
        _start(connection, jobs, seqs, request.slots)
    elif jobs:
        claimed = (as_json(made), request.expiry, as_json(front))
        count = connection.execute(statements.CLAIM_NUMBERED, claimed).rowcount
        assert count == len(jobs)
    return jobs


def _start(
    connection: sqlite3.Connection,
    jobs: Sequence[Job],
    seqs: Sequence[int],
    slots: Sequence[WorkerSlot],
) -> None:
    """Write that jobs have started, each on its slot."""
    alike = _starts_alike(jobs, slots)
    if alike is None:
        assert all(replace(connection, [replaced(job) for job in jobs]))
        return
    for (slot, at), places in alike.items():
        numbers = [seqs[place] for place in places]
        parameters = (as_json(_mark(jobs[0], slot)), at, slot.worker_id, as_json(numbers))
        count = connection.execute(statements.START_NUMBERED, parameters).rowcount
        assert count == len(numbers)


def start_placed(
    connection: sqlite3.Connection,
    jobs: Sequence[Job],
    seqs: Sequence[int],
    slots: Sequence[WorkerSlot],
) -> list[bool]:
    """Write that jobs of one type have started on places under limits; say of which it is true."""
    alike = _starts_alike(jobs, slots)
    if alike is None:
        return replace(connection, [replaced(job) for job in jobs])
    answers = [False] * len(jobs)
    low, _ = texts_between(jobs[0].type)
    for (slot, at), places in alike.items():
        mark = as_json(_mark(jobs[0], slot))[:-1]
        stamp = random.getrandbits(48)  # marks what this claim wrote; no secret
        first = (stamp, mark, _NULL if at is None else at, slot.worker_id, low)
        for start in range(0, len(places), statements.MOST_STARTED):
            some = places[start : start + statements.MOST_STARTED]
            rows = _padded([_placed(jobs[place], seqs[place]) for place in some])
            count = execute(connection, statements.start_placed, rows, *first).rowcount
            ids = [jobs[place].id for place in some]
            written = set(ids) if count == len(ids) else _written_by(connection, stamp, ids)
            for place in some:
                answers[place] = jobs[place].id in written
    return answers


def start_guessed(
    connection: sqlite3.Connection,
    jobs: Sequence[Job],
    seqs: Sequence[int],
    slots: Sequence[WorkerSlot],
    limits: JobLimits,
    first: int,
) -> list[bool]:
    """Do the same on places that were guessed: their numbers begin with `first`."""
    alike = _starts_alike(jobs, slots)
    if alike is None:
        return replace(connection, [replaced(job) for job in jobs])
    low, _ = texts_between(jobs[0].type)
    answers = [True] * len(jobs)
    for (slot, at), places in alike.items():
        mark = as_json(_mark(jobs[0], slot))[:-1]
        stamp = random.getrandbits(48)  # marks what this claim wrote; no secret
        numbers = as_json({seqs[place]: first + place for place in places})
        row = (stamp, mark, at, slot.worker_id, low, limits.per_key, limits.total, numbers)
        if connection.execute(statements.START_GUESSED, row).rowcount < len(places):
            written = _written_by(connection, stamp, [jobs[place].id for place in places])
            for place in places:
                answers[place] = jobs[place].id in written
    return answers


def _starts_alike(
    jobs: Sequence[Job], slots: Sequence[WorkerSlot]
) -> dict[tuple[WorkerSlot, float | None], list[int]] | None:
    """Return where in a claim jobs are that start alike, on one worker; None if they are too few.

    Such are written by one statement that leaves the documents as they are, at a third of the
    price.
    """
    alike: defaultdict[tuple[WorkerSlot, float | None], list[int]] = defaultdict(list)
    last: tuple[WorkerSlot, float | None] | None = None
    for place, (job, slot) in enumerate(zip(jobs, slots, strict=False)):
        if last is None or last[0] is not slot or last[1] != alarm(job):  # a hash is dear
            last = slot, alarm(job)
            group = alike[last]
        group.append(place)
    has_marks = all(slot.place is None and not slot.at_most_once for slot, _ in alike)
    return alike if has_marks and len(alike) <= MOST_STARTS_ALIKE else None


def _mark(job: Job, slot: WorkerSlot) -> ClaimMark:
    made = job.dispatcher
    assert made is not None
    return ClaimMark(made.id, made.date, made.expiry, slot)


def _placed(job: Job, seq: int) -> Parameters:
    """The parameters of `statements.start_placed` for one job."""
    run = job.execution
    return seq, run.limit_place, run.total_place


def _padded(rows: list[Parameters]) -> list[Parameters]:
    """Fill rows up to a power of two, so that there are few statements; no job has the seq NULL."""
    size = 1 << (len(rows) - 1).bit_length()
    return rows + [(_NULL, _NULL, _NULL)] * (size - len(rows))


def _front(connection: sqlite3.Connection, types: Sequence[str], limit: int) -> list[int]:
    """Return which jobs to claim: first those whose turn it is, then by rank."""
    heads: list[Head] = []
    queued = types
    if len(types) > 1:
        text = reads.value(connection, statements.HEADS, as_json(types))
        heads = [Head(*it) for it in _decode_heads(text)]
        queued = [head.type for head in heads]
        if not queued:
            return []
    wanted = (*chain.from_iterable((kind, limit) for kind in queued), limit)
    front = [seq for (seq,) in connection.execute(statements.front(len(queued)), wanted)]
    if len(queued) == 1:
        return front
    turns = [head.seq for head in favoured(heads, types)]
    return list(dict.fromkeys([*turns, *front]))[:limit]


def replace(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> list[bool]:
    """Compare and swap jobs that are under way."""
    return _swap(connection, statements.replace_jobs, rows)


def deliver(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> list[bool]:
    """Compare and swap the callbacks of jobs that have ended."""
    return _swap(connection, statements.deliver_callbacks, rows)


def _swap(
    connection: sqlite3.Connection, statement: Callable[[int], str], rows: Sequence[Parameters]
) -> list[bool]:
    """Compare and swap; a row's first parameter is the job's id."""
    answers: list[bool] = []
    if not rows:
        return answers
    stamp = random.getrandbits(48)  # marks what this call wrote; no secret
    is_distinct = len({row[0] for row in rows}) == len(rows)
    for _, chunk in chunks(rows, None if is_distinct else 1):
        count = execute(connection, statement, chunk, stamp).rowcount
        if count in (0, len(chunk)):
            answers += [count > 0] * len(chunk)
        else:
            ids = [row[0] for row in chunk]
            written = _written_by(connection, stamp, ids)
            answers += [job_id in written for job_id in ids]
    return answers


def _written_by(connection: sqlite3.Connection, stamp: int, ids: Sequence[str]) -> set[str]:
    """Return which of these jobs bear a statement's stamp."""
    return set(_decode_ids(reads.value(connection, statements.WRITTEN_BY, stamp, as_json(ids))))


def purge(connection: sqlite3.Connection, ended_before: float, limit: int) -> int:
    """Delete finished jobs, the earliest first, with their payloads."""
    doomed = reads.value(connection, statements.DOOMED, ended_before, max(limit, 0))
    connection.execute(statements.PURGE_EDGES, (doomed,))
    if reads.value(connection, statements.HAS_JOURNAL):
        connection.execute(statements.PURGE_JOURNAL, (doomed,))
    connection.execute(statements.PURGE_PAYLOADS, (doomed,))
    return connection.execute(statements.PURGE_JOBS, (doomed,)).rowcount


def put_workers(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> None:
    for _, chunk in chunks(rows):
        execute(connection, statements.put_workers, chunk)


def renew_workers(connection: sqlite3.Connection, ids: Iterable[str], now: float) -> None:
    connection.execute(statements.RENEW_WORKERS, (as_json(now), as_json(ids)))


def swap_workers(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> list[bool]:
    """Compare and swap records, one by one: they are few and rarely written."""
    return [connection.execute(statements.SWAP_WORKER, row).rowcount > 0 for row in rows]


def remove_workers(connection: sqlite3.Connection, revisions: Iterable[tuple[str, int]]) -> None:
    connection.execute(statements.REMOVE_WORKERS, (as_json(revisions),))


def meet(connection: sqlite3.Connection, presence: Presence) -> list[Presence]:
    """Write that a dispatcher is here, drop those long gone, and return all that are left."""
    connection.execute(statements.FORGET_DISPATCHERS, (presence.clock - KEPT_SECONDS,))
    row = (presence.dispatcher_id, presence.clock, msgspec.json.encode(presence).decode())
    connection.execute(statements.PUT_DISPATCHER, row)
    found = connection.execute(statements.DISPATCHERS)
    return [msgspec.json.decode(doc, type=Presence) for (doc,) in found]


def _answers(
    connection: sqlite3.Connection,
    offered: Sequence[Job],
    new: set[int],
    otherwise: Mapping[str, Job],
) -> Iterator[Job | UniqueKeyTaken]:
    """Answer a batch in which some met an earlier job; the others stand at the places `new`."""
    refused = [job for at, job in enumerate(offered) if at not in new]
    by_id = {job.id: job for job in _earlier(connection, "id", [job.id for job in refused])}
    keys = [job.unique_key for job in refused if job.unique_key is not None]
    by_key = {named_key(job): job for job in _earlier(connection, "unique_key", keys)}
    for at, job in enumerate(offered):
        if at in new:
            yield job
            continue
        earlier = by_id.get(job.id) or by_key.get(named_key(job))
        if earlier is None:  # a place of its own is another job's
            queued = otherwise[job.id]
            yield from insert(connection, [queued], [inserted(queued)])
            continue
        answer = answer_to(job, earlier)
        if isinstance(answer, EarlierJobChange):
            answer = _changed(connection, job, answer, otherwise)
            by_id[answer.id] = by_key[named_key(answer)] = answer
        yield answer


def _changed(
    connection: sqlite3.Connection,
    job: Job,
    change: EarlierJobChange,
    otherwise: Mapping[str, Job],
) -> Job:
    """Change the earlier job, and return the one that stands for the new one."""
    earlier = change.job
    if not change.is_answer:
        given_up = connection.execute(statements.GIVE_UP_KEY, (earlier.id, earlier.revision))
        assert given_up.rowcount == 1
        [stored] = insert(connection, [job], [inserted(job)], otherwise)
        assert isinstance(stored, Job)
        return stored
    assert all(replace(connection, [replaced(earlier)]))
    if change.has_payload:
        connection.execute(statements.REPLACE_PAYLOAD, (earlier.id, earlier.payload))
    [now] = _earlier(connection, "id", [earlier.id])
    return now


def _earlier(connection: sqlite3.Connection, column: str, keys: list[str]) -> list[Job]:
    """Read jobs by a unique column; its values may be any text, so JSON is no way to pass them."""
    where = f"{column} IN ({', '.join('?' * len(keys))})"
    return reads.jobs(connection, where, tuple(keys), payload=True, result=True)


def chunks(
    rows: Sequence[Parameters], most: int | None = None
) -> Iterator[tuple[int, Sequence[Parameters]]]:
    """Cut a batch into pieces for which there are statements, each with where it starts."""
    start = 0
    while left := len(rows) - start:
        size = left if left <= statements.MOST_EXACT_ROWS else 1 << left.bit_length() - 1
        size = min(size, most or statements.MOST_ROWS)
        yield start, rows[start : start + size]
        start += size


def execute(
    connection: sqlite3.Connection,
    statement: Callable[[int], str],
    rows: Sequence[Parameters],
    *first: object,
) -> sqlite3.Cursor:
    return connection.execute(statement(len(rows)), [*first, *_quickly_bound(rows)])


def _quickly_bound(rows: Iterable[Parameters]) -> list[object]:
    """Return the values of rows in the form that Python's sqlite3 binds at once.

    For None and for bytes it first looks for adapters, which takes ten times as long as the rest
    and is half of what it costs to write a job. SQLite stores a NaN as NULL.
    """
    return [
        _NULL if value is None else bytearray(value) if _are_few_bytes(value) else value
        for value in chain.from_iterable(rows)
    ]


def _are_few_bytes(value: object) -> bool:
    return type(value) is bytes and len(value) <= statements.MOST_INLINE_BYTES
