"""Searches for people: each statement reads a bounded stretch of one index, or of the table's end.

The stretch is found first, by its bounds alone; only then are its rows compared with the rest
of what is asked for.
"""

# ruff: noqa: S608  Only texts of our own are joined here; what comes from outside is a parameter.

from __future__ import annotations

import json
import sqlite3

import msgspec

from shunter.model.job import FINAL, Job, Status
from shunter.model.presence import Presence
from shunter.store.search import (
    COUNTED_OF_A_RUN,
    MOST_TYPES,
    JobSearch,
    JobsSeen,
    QueueDepth,
    RunSearch,
    RunsSeen,
    RunSummary,
)
from shunter.store.sqlite import reads, statements
from shunter.store.sqlite.rows import as_json

_READY = "status = 'q' AND alarm IS NULL AND lane IS NULL"
_LANED = "status = 'q' AND alarm IS NULL AND lane IS NOT NULL"
_PARKED = "status = 'w'"
ABOVE_ALL = 2**62
ABOVE_ALL_TEXTS = "\U0010ffff"

_QUEUES = (("ready", _READY), ("lanes", _LANED))


def _types(index: str, condition: str) -> str:
    """All types in an index that begins with the type, by one step of it for each."""
    return f"""
        WITH RECURSIVE kinds(type) AS (
            SELECT min(type) FROM jobs INDEXED BY {index} WHERE {condition}
            UNION ALL
            SELECT (SELECT min(type) FROM jobs INDEXED BY {index}
                    WHERE {condition} AND type > kinds.type)
            FROM kinds WHERE kinds.type IS NOT NULL LIMIT {MOST_TYPES})"""


def _counted(index: str, condition: str) -> str:
    return f"""{_types(index, condition)}
        SELECT type, (SELECT count(*) FROM (
            SELECT 1 FROM jobs INDEXED BY {index}
            WHERE {condition} AND type = kinds.type LIMIT ?1)), (
            SELECT json_extract(doc, '$.created') FROM jobs WHERE seq = (
                SELECT seq FROM jobs INDEXED BY {index}
                WHERE {condition} AND type = kinds.type ORDER BY {_order(index)} LIMIT 1))
        FROM kinds WHERE type IS NOT NULL"""


def _order(index: str) -> str:
    return "rank, seq" if index == "ready" else "lane, rank, seq"


COUNTS = {index: _counted(index, condition) for index, condition in _QUEUES}

DELAYED = """
    SELECT type, count(*) FROM (
        SELECT type FROM jobs INDEXED BY alarms
        WHERE alarm IS NOT NULL AND status = 'q' LIMIT ?1) GROUP BY type"""

PARKED = f"""{_types("parked", _PARKED)}
    SELECT type, (SELECT count(*) FROM (
        SELECT 1 FROM jobs INDEXED BY parked WHERE {_PARKED} AND type = kinds.type LIMIT ?1))
    FROM kinds WHERE type IS NOT NULL"""

RUNNING = """
    SELECT type, count(*) FROM (
        SELECT type FROM jobs INDEXED BY held WHERE status = 'd' OR status = 'i' LIMIT ?1)
    GROUP BY type"""


def depths(connection: sqlite3.Connection, most: int) -> list[QueueDepth]:
    """Count what has not ended, by type."""
    waiting: dict[str, int] = {}
    oldest: dict[str, float] = {}
    for statement in COUNTS.values():
        for kind, count, created in connection.execute(statement, (most,)).fetchall():
            waiting[kind] = min(most, waiting.get(kind, 0) + count)
            if created is not None:
                oldest[kind] = min(created, oldest.get(kind, created))
    delayed = dict(connection.execute(DELAYED, (most,)).fetchall())
    running = dict(connection.execute(RUNNING, (most,)).fetchall())
    parked = dict(connection.execute(PARKED, (most,)).fetchall())
    return [
        QueueDepth(
            type=kind,
            waiting=waiting.get(kind, 0),
            delayed=delayed.get(kind, 0),
            running=running.get(kind, 0),
            parked=parked.get(kind, 0),
            oldest=oldest.get(kind),
        )
        for kind in sorted({*waiting, *delayed, *running, *parked})
    ]


def presences(connection: sqlite3.Connection) -> list[Presence]:
    """Return the dispatchers that were here."""
    found = connection.execute(statements.DISPATCHERS).fetchall()
    return [msgspec.json.decode(document, type=Presence) for (document,) in found]


NEXT_RUN = "SELECT run FROM jobs INDEXED BY runs WHERE run < ? ORDER BY run DESC LIMIT 1"

OF_RUN = f"""
    SELECT status, namespace, count(*), max(ended), min(seq) FROM (
        SELECT status, namespace, ended, seq FROM jobs INDEXED BY runs
        WHERE run = ? ORDER BY seq LIMIT {COUNTED_OF_A_RUN}) GROUP BY status, namespace"""

MORE_OF_RUN = f"""
    SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY runs WHERE run = ? LIMIT 1
        OFFSET {COUNTED_OF_A_RUN})"""


def runs(connection: sqlite3.Connection, wanted: RunSearch) -> RunsSeen:
    """List runs by one step of their index for each, and one stretch of it."""
    found: list[RunSummary] = []
    name, looked_at = ABOVE_ALL_TEXTS if wanted.after is None else wanted.after, 0
    while row := connection.execute(NEXT_RUN, (name,)).fetchone():
        if len(found) == wanted.limit or looked_at >= wanted.most:
            return RunsSeen(runs=found, next=name)
        (name,) = row
        counted = connection.execute(OF_RUN, (name,)).fetchall()
        looked_at += sum(count for _, _, count, *_ in counted)
        seen = [it for it in counted if wanted.namespace in (None, it[1])]
        if seen:
            summary = _summary(connection, name, seen)
            found += [summary] if wanted.workflow in (None, summary.workflow) else []
    return RunsSeen(runs=found)


def _summary(
    connection: sqlite3.Connection, name: str, counted: list[tuple[str, str, int, float, int]]
) -> RunSummary:
    first = connection.execute(
        "SELECT doc ->> '$.workflow', doc ->> '$.created' FROM jobs WHERE seq = ?",
        (min(seq for *_, seq in counted),),
    ).fetchone()
    counts: dict[Status, int] = {}
    for status, _, count, _, _ in counted:
        counts[Status(status)] = counts.get(Status(status), 0) + count
    return RunSummary(
        id=name,
        workflow=first[0],
        created=float(first[1]),
        counts=counts,
        ended=max(it[3] for it in counted) if FINAL.issuperset(counts) else None,
        is_cut=bool(connection.execute(MORE_OF_RUN, (name,)).fetchone()[0]),
    )


def search(connection: sqlite3.Connection, wanted: JobSearch) -> JobsSeen:
    """List jobs by the index that leads to them."""
    if wanted.limit <= 0:
        return JobsSeen(jobs=[])
    if wanted.is_keyed:
        return _by_key(connection, wanted)
    if wanted.is_waiting:
        return _in_queue(connection, wanted)
    if wanted.is_delayed_line:
        return _by_alarm(connection, wanted)
    if wanted.status is Status.WAITING and not wanted.is_of_few:
        return _parked(connection, wanted)
    return _newest(connection, wanted)


def _newest(connection: sqlite3.Connection, wanted: JobSearch) -> JobsSeen:
    below = _start(connection, wanted)
    source, terms, known = stretch(wanted)
    found = connection.execute(
        f"SELECT min(seq), count(*) FROM (SELECT seq FROM {source} WHERE {terms} AND seq < ? "
        "ORDER BY seq DESC LIMIT ?)",
        (*known, below, wanted.most),
    ).fetchone()
    lowest, looked_at = found
    if lowest is None:
        return JobsSeen(jobs=[])
    rest, parameters = _rest(wanted)
    jobs = reads.jobs(
        connection,
        f"{terms} AND jobs.seq >= ? AND jobs.seq < ? AND {rest}",
        (*known, lowest, below, *parameters),
        order="jobs.seq DESC",
        limit=wanted.limit,
    )
    if len(jobs) == wanted.limit:
        return JobsSeen(jobs=jobs, next=str(_seq_of(connection, jobs[-1])), until=jobs[-1].created)
    until = _created(connection, lowest)
    is_over = wanted.created_from is not None and until is not None and until < wanted.created_from
    if looked_at < wanted.most or is_over:
        return JobsSeen(jobs=jobs)
    return JobsSeen(jobs=jobs, next=str(lowest), until=until)


def stretch(wanted: JobSearch) -> tuple[str, str, tuple[object, ...]]:
    """Return what to go through, backwards: the table, or an index that holds fewer jobs."""
    if wanted.ids is not None:
        return "jobs", f"jobs.{statements.WITH_ID}", (as_json(list(wanted.ids)),)
    if wanted.run is not None:
        return "jobs INDEXED BY runs", "run = ?", (wanted.run,)
    if wanted.status in FINAL:
        return "jobs INDEXED BY outcomes", "status = ? AND ended IS NOT NULL", (wanted.status,)
    if wanted.status is not None:
        held = f"SELECT seq FROM jobs INDEXED BY held WHERE status = '{wanted.status}'"
        return "jobs", f"jobs.seq IN ({held})", ()
    if wanted.namespace:
        return (
            "jobs INDEXED BY namespaces",
            "namespace = ? AND namespace <> ''",
            (wanted.namespace,),
        )
    return "jobs", "true", ()


def _by_key(connection: sqlite3.Connection, wanted: JobSearch) -> JobsSeen:
    low = wanted.key if wanted.key is not None else wanted.key_prefix or ""
    high = f"{low}\0" if wanted.key is not None else f"{low}\U0010ffff"
    rest, parameters = _rest(wanted)
    jobs = reads.jobs(
        connection,
        f"unique_key IS NOT NULL AND unique_key >= ? AND unique_key < ? AND {rest}",
        (low, min(high, wanted.after or high), *parameters),
        order="unique_key DESC",
        limit=wanted.limit,
    )
    is_full = len(jobs) == wanted.limit
    return JobsSeen(jobs=jobs, next=jobs[-1].unique_key if is_full else None)


def _in_queue(connection: sqlite3.Connection, wanted: JobSearch) -> JobsSeen:
    """Look at the front of each type's queue, and take the first of all."""
    rank, seq = _position(wanted.after)
    fronts: list[tuple[int, int]] = []
    is_cut = False
    for index, condition in _QUEUES:
        kinds = [wanted.type]
        if wanted.type is None:
            listed = connection.execute(f"{_types(index, condition)} SELECT type FROM kinds")
            kinds = [kind for (kind,) in listed if kind is not None]
        share = max(wanted.limit + 1, wanted.most // max(len(kinds), 1))
        for kind in kinds:
            found = connection.execute(
                f"SELECT rank, seq FROM jobs INDEXED BY {index} WHERE {condition} AND type = ? "
                f"{'AND (rank, seq) > (?, ?)' if index == 'ready' else ''}"
                f"ORDER BY {_order(index)} LIMIT ?",
                (kind, *((rank, seq) if index == "ready" else ()), share),
            ).fetchall()
            is_cut = is_cut or len(found) == share
            fronts += [it for it in found if tuple(it) > (rank, seq)]
    fronts.sort()
    return _of_line(connection, wanted, fronts, is_cut=is_cut)


def _parked(connection: sqlite3.Connection, wanted: JobSearch) -> JobsSeen:
    """Look at the newest of each type that wait for other jobs, and take the newest of all."""
    below = int(wanted.after.partition(" ")[2]) if wanted.after else ABOVE_ALL
    kinds = [wanted.type]
    if wanted.type is None:
        listed = connection.execute(f"{_types('parked', _PARKED)} SELECT type FROM kinds")
        kinds = [kind for (kind,) in listed if kind is not None]
    share = max(wanted.limit + 1, wanted.most // max(len(kinds), 1))
    line: list[tuple[int, int]] = []
    is_cut = False
    for kind in kinds:
        found = connection.execute(
            f"SELECT -seq, seq FROM jobs INDEXED BY parked WHERE {_PARKED} AND type = ? "
            "AND seq < ? ORDER BY seq DESC LIMIT ?",
            (kind, below, share),
        ).fetchall()
        is_cut = is_cut or len(found) == share
        line += found
    return _of_line(connection, wanted, sorted(line), is_cut=is_cut)


def _by_alarm(connection: sqlite3.Connection, wanted: JobSearch) -> JobsSeen:
    alarm, _, seq = (wanted.after or "-1 0").partition(" ")
    found = connection.execute(
        "SELECT alarm, seq FROM jobs INDEXED BY alarms WHERE alarm IS NOT NULL AND alarm >= ? "
        "AND status = 'q' ORDER BY alarm, status, type, seq LIMIT ?",
        (float(alarm), wanted.most),
    ).fetchall()
    line = sorted(it for it in map(tuple, found) if it > (float(alarm), int(seq)))
    return _of_line(connection, wanted, line, is_cut=len(found) == wanted.most)


def _of_line(
    connection: sqlite3.Connection,
    wanted: JobSearch,
    line: list[tuple[int, int]] | list[tuple[float, int]],
    *,
    is_cut: bool,
) -> JobsSeen:
    """Read the jobs of a line in its order, as far as they are looked for."""
    rest, parameters = _rest(wanted)
    jobs: list[Job] = []
    for start in range(0, min(len(line), wanted.most), 200):
        part = line[start : start + 200]
        numbers = [seq for _, seq in part]
        found = reads.jobs(
            connection,
            f"jobs.seq IN (SELECT value FROM json_each(?)) AND {rest}",
            (as_json(numbers), *parameters),
        )
        by_id = {job.id: job for job in found}
        listed = connection.execute(
            "SELECT seq, id FROM jobs WHERE seq IN (SELECT value FROM json_each(?))",
            (json.dumps(numbers),),
        )
        ids = dict(listed.fetchall())
        for key, seq in part:
            if (job := by_id.get(ids.get(seq, ""))) is not None:
                jobs.append(job)
                if len(jobs) == wanted.limit:
                    return JobsSeen(jobs=jobs, next=f"{key} {seq}", until=job.created)
    if not is_cut or not line:
        return JobsSeen(jobs=jobs)
    key, seq = line[min(len(line), wanted.most) - 1]
    return JobsSeen(jobs=jobs, next=f"{key} {seq}", until=_created(connection, seq))


def _rest(wanted: JobSearch) -> tuple[str, tuple[object, ...]]:
    """The conditions that are compared row by row."""
    said = (
        "lower(ifnull(doc ->> '$.error.kind', '') || ': ' || ifnull(doc ->> '$.error.message', ''))"
    )
    terms: list[tuple[str, object]] = [
        ("status = ?", wanted.status if wanted.is_of_few else None),
        ("type = ?", wanted.type),
        ("worker_id = ?", wanted.worker_id),
        ("namespace = ?", wanted.namespace),
        ("doc ->> '$.workflow' = ?", wanted.workflow),
        ("run = ?", wanted.run),
        (f"instr({said}, ?)", None if wanted.text is None else wanted.text.lower()),
        ("doc ->> '$.created' >= ?", wanted.created_from),
        ("doc ->> '$.created' < ?", wanted.created_until),
    ]
    asked = [(term, value) for term, value in terms if value is not None]
    line = "true"
    if wanted.is_of_few and wanted.status is Status.QUEUED:
        line = "alarm IS NOT NULL" if wanted.is_delayed else "alarm IS NULL"
    return " AND ".join([line, *(term for term, _ in asked)]), tuple(v for _, v in asked)


def _start(connection: sqlite3.Connection, wanted: JobSearch) -> int:
    """Return below which number to begin: where the last page ended, or at a time."""
    if wanted.after is not None:
        return int(wanted.after)
    if wanted.created_until is None:
        return ABOVE_ALL
    bounds = "SELECT (SELECT min(seq) FROM jobs), (SELECT max(seq) FROM jobs)"
    low, high = (at or 0 for at in connection.execute(bounds).fetchone())
    high += 1
    while low < high:
        middle = (low + high) // 2
        created = _created(connection, middle)
        if created is None or created >= wanted.created_until:
            high = middle
        else:
            low = middle + 1
    return high


def _created(connection: sqlite3.Connection, seq: int) -> float | None:
    """When the first job from this number on was created: numbers rise with that."""
    found = connection.execute(
        "SELECT json_extract(doc, '$.created') FROM jobs WHERE seq >= ? ORDER BY seq LIMIT 1",
        (seq,),
    ).fetchone()
    return None if found is None else float(found[0])


def _seq_of(connection: sqlite3.Connection, job: Job) -> int:
    return int(connection.execute("SELECT seq FROM jobs WHERE id = ?", (job.id,)).fetchone()[0])


def _position(after: str | None) -> tuple[int, int]:
    rank, _, seq = (after or f"{-(2**62)} 0").partition(" ")
    return int(rank), int(seq)
