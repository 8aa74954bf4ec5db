"""What is read: functions of a connection, free of threads and loops.

Each asks for one text that holds many rows, and for long lists for one after the other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from shunter.model.job import Dispatch, Job, Status
from shunter.model.worker import Worker
from shunter.store.port import Backlog, JobQuery
from shunter.store.sqlite import statements
from shunter.store.sqlite.rows import JobRow, Parameters, as_json, jobs_in, workers_in

_decode_counts = msgspec.json.Decoder(list[tuple[str, Status, int]]).decode

_decode_times = msgspec.json.Decoder(dict[str, float]).decode
_decode_revisions = msgspec.json.Decoder(dict[str, int]).decode


def jobs(
    connection: sqlite3.Connection,
    where: str,
    parameters: Parameters,
    *,
    order: str = "jobs.seq",
    limit: int = -1,
    payload: bool = False,
    result: bool = False,
    claim: Dispatch | None = None,
    keep: Callable[[list[JobRow]], list[JobRow]] | None = None,
) -> list[Job]:
    """Read the jobs that a condition holds, of which `keep` may choose some.

    `claim` is one that is about to be made of them.
    """

    def bytes_apart(column: str, seqs: list[int]) -> list[tuple[int, bytes]]:
        return connection.execute(statements.APART[column], (as_json(seqs),)).fetchall()

    text = statements.read_jobs(where, order, payload=payload, result=result)
    found = value(connection, text, *parameters, limit)
    return jobs_in(found, claim=claim, bytes_apart=bytes_apart, keep=keep)


def value(connection: sqlite3.Connection, text: str, *parameters: object) -> Any:
    """Return the only value of the only row."""
    return connection.execute(text, parameters).fetchone()[0]


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has written."""
    return int(value(connection, "PRAGMA data_version"))


def get(connection: sqlite3.Connection, ids: Sequence[str], payload: bool) -> list[Job | None]:
    found = {}
    for start in range(0, len(ids), statements.MOST_ROWS):
        listed = as_json(ids[start : start + statements.MOST_ROWS])
        for job in jobs(connection, statements.WITH_ID, (listed,), payload=payload, result=True):
            found[job.id] = job
    return [found.get(job_id) for job_id in ids]


def revisions(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    return _decode_revisions(value(connection, statements.REVISIONS, as_json(ids)))


def find(connection: sqlite3.Connection, query: JobQuery) -> list[Job]:
    found: list[Job] = []
    while (left := query.limit - len(found)) > 0:
        limit = min(left, statements.MOST_ROWS)
        where, parameters = statements.matching(query)
        page = jobs(connection, where, parameters, order="jobs.seq DESC", limit=limit)
        found += page
        if len(page) < limit:
            break
        query = replace(query, before=page[-1].id)
    return found


def backlog(connection: sqlite3.Connection, text: str = statements.BACKLOG) -> list[Backlog]:
    return [
        Backlog(type=kind, status=status, count=count)
        for kind, status, count in _decode_counts(value(connection, text))
    ]


FIRST_ENDED = (float("-inf"), "", "", 0)
COUNTED_AT_ONCE = 20_000


def ended_counts(
    connection: sqlite3.Connection, after: tuple[object, ...]
) -> tuple[list[tuple[str, Status, int]], tuple[object, ...] | None]:
    """Count some of those that have ended, from behind one; return the last of them, if there is.

    Together they take less than a hundredth of a second.
    """
    known = (*after, COUNTED_AT_ONCE)
    counts = _decode_counts(value(connection, statements.ENDED_COUNTS, *known))
    return counts, connection.execute(statements.LAST_OF_ENDED, known).fetchone()


def oldest(connection: sqlite3.Connection) -> dict[str, float]:
    return _decode_times(value(connection, statements.OLDEST))


def workers(connection: sqlite3.Connection, ids: Sequence[str] | None) -> list[Worker]:
    if ids is None:
        return workers_in(value(connection, statements.read_workers("true")))
    text = statements.read_workers(f"id IN {statements.LISTED}")
    known = {worker.id: worker for worker in workers_in(value(connection, text, as_json(ids)))}
    return [known[worker_id] for worker_id in ids if worker_id in known]
