"""The SQL, and why it is shaped so.

Python's sqlite3 lets go of the interpreter lock for each step of a statement, and beside a busy
event loop each return costs up to the switch interval (5 ms). So nothing here steps row by row:
many rows are written by one statement, and many rows are read as one JSON text. Statements for
many rows exist for every small number of them, and else in sizes of powers of two, so that few
prepared ones serve every batch.
A claim costs the same whatever waits: it reads the front of the index `ready`, and no more. Of the
types that it names only those are looked into that one look has found to have something waiting.
"""

# ruff: noqa: S608  Only texts of our own are joined here; what comes from outside is a parameter.

from __future__ import annotations

from functools import cache

from shunter.model.job import FINAL, Status
from shunter.store.port import JobQuery
from shunter.store.sqlite.rows import Parameters

MOST_ROWS = 256
"""How many rows one statement writes, or one text holds, at most."""

MOST_STARTED = 1024
"""How many jobs one statement starts on places, at most."""

MOST_EXACT_ROWS = 32
"""Up to so many rows are written by one statement, whatever their number; it is prepared once."""

MOST_INLINE_BYTES = 4096
"""Longer payloads and results don't travel in the text, where they take twice their size."""

MOST_COMPOUND = 100
"""How many selects are joined at one level; SQLite has a limit of its own at 500."""

LISTED = "(SELECT value FROM json_each(?))"

WITH_ID = f"id IN {LISTED}"
HELD = f"worker_id IN {LISTED} AND status = 'i'"
DUE = "alarm <= ? AND status NOT IN ('c', 'f', 'x')"
OVERDUE = "deadline <= ?"
CALLBACK_DUE = "alarm > 0.0 AND alarm <= ? AND status IN ('c', 'f', 'x')"
DEPENDENTS_DUE = "alarm = 0.0 AND status IN ('c', 'f', 'x')"

INSERTED_AFTER = """
    SELECT json_group_array(stamp) FROM (SELECT stamp FROM jobs WHERE seq > ? ORDER BY seq)"""
WRITTEN_BY = f"SELECT json_group_array(id) FROM jobs WHERE stamp = ? AND id IN {LISTED}"
NEXT_ALARM = "SELECT min(alarm) FROM jobs INDEXED BY alarms WHERE alarm IS NOT NULL"
APART = {
    "payload": f"SELECT seq, body FROM payloads WHERE seq IN {LISTED}",
    "result": f"SELECT seq, result FROM jobs WHERE seq IN {LISTED}",
}

_UNENDED = """
            SELECT type, 'q' AS status, count(*) AS count
            FROM jobs INDEXED BY ready
            WHERE status = 'q' AND alarm IS NULL AND lane IS NULL GROUP BY type
            UNION ALL
            SELECT type, 'q' AS status, count(*) AS count
            FROM jobs INDEXED BY lanes
            WHERE status = 'q' AND alarm IS NULL AND lane IS NOT NULL GROUP BY type
            UNION ALL
            SELECT type, status, count(*)
            FROM jobs INDEXED BY alarms WHERE alarm IS NOT NULL AND status = 'q' GROUP BY type
            UNION ALL
            SELECT type, status, count(*)
            FROM jobs INDEXED BY held WHERE status = 'd' OR status = 'i' GROUP BY type, status
            UNION ALL
            SELECT type, 'w' AS status, count(*)
            FROM jobs INDEXED BY parked WHERE status = 'w' GROUP BY type"""

_ENDED = """
            SELECT type, status, count(*) AS count
            FROM jobs INDEXED BY finished WHERE ended IS NOT NULL GROUP BY type, status"""


def _backlog(counts: str) -> str:
    return f"""
    SELECT json_group_array(json_array(type, status, count)) FROM (
        SELECT type, status, sum(count) AS count FROM ({counts}
        ) GROUP BY type, status ORDER BY type, status)"""


UNENDED_BACKLOG = _backlog(_UNENDED)
BACKLOG = _backlog(f"{_UNENDED}\n            UNION ALL{_ENDED}")

_SOME_ENDED = """
    SELECT ended, status, type, seq FROM jobs INDEXED BY finished
    WHERE ended >= ?1 AND (ended > ?1 OR (status, type, seq) > (?2, ?3, ?4))
    ORDER BY ended, status, type, seq"""
ENDED_COUNTS = f"""
    SELECT json_group_array(json_array(type, status, count)) FROM (
        SELECT type, status, count(*) AS count FROM ({_SOME_ENDED} LIMIT ?5)
        GROUP BY type, status)"""
LAST_OF_ENDED = f"{_SOME_ENDED} LIMIT 1 OFFSET ?5 - 1"
"""Counts a stretch of those that have ended, and tells its last one, to go on behind it."""

OLDEST = """
    SELECT json_group_object(type, (
        SELECT json_extract(doc, '$.created') FROM jobs WHERE seq = first)) FROM (
            SELECT type, min(first) AS first FROM (
                SELECT type, min(seq) AS first FROM jobs INDEXED BY ready
                WHERE status = 'q' AND alarm IS NULL AND lane IS NULL GROUP BY type
                UNION ALL
                SELECT type, min(seq) AS first FROM jobs INDEXED BY lanes
                WHERE status = 'q' AND alarm IS NULL AND lane IS NOT NULL GROUP BY type
            ) GROUP BY type)"""

DOOMED = """
    SELECT json_group_array(seq) FROM (
        SELECT seq FROM jobs INDEXED BY finished
        WHERE ended < ? AND alarm IS NULL AND NOT EXISTS (
            SELECT true FROM edges JOIN jobs AS child ON child.id = edges.child
            WHERE edges.parent = jobs.id AND child.ended IS NULL)
        ORDER BY ended, status, type, seq LIMIT ?)"""
PURGE_EDGES = f"""
    DELETE FROM edges WHERE child IN (SELECT id FROM jobs WHERE seq IN {LISTED})"""
HAS_JOURNAL = "SELECT EXISTS (SELECT true FROM journal)"
PURGE_JOURNAL = f"""
    DELETE FROM journal WHERE job IN (SELECT id FROM jobs WHERE seq IN {LISTED})"""
PURGE_PAYLOADS = f"DELETE FROM payloads WHERE seq IN {LISTED}"
PURGE_JOBS = f"DELETE FROM jobs WHERE seq IN {LISTED}"

RENEW_WORKERS = f"UPDATE workers SET last_pinged = ?, is_dead = 0 WHERE id IN {LISTED}"
REMOVE_WORKERS = """
    DELETE FROM workers WHERE (id, revision) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))"""
SWAP_WORKER = """
    INSERT INTO workers (id, revision, last_pinged, is_dead, doc)
    SELECT ?1, ?2, ?3, ?4, ?5
    WHERE ?2 = 1 OR EXISTS (SELECT true FROM workers WHERE id = ?1)
    ON CONFLICT (id) DO UPDATE SET revision = ?2, last_pinged = ?3, is_dead = ?4, doc = ?5
        WHERE workers.revision = ?2 - 1"""
REVISIONS = f"SELECT json_group_object(id, revision) FROM jobs WHERE id IN {LISTED}"


@cache
def insert_jobs(rows: int) -> str:
    """Each row is stamped with its place in the statement."""
    places = ", ".join(f"({at}, {', '.join('?' * 17)})" for at in range(rows))
    return f"""
        INSERT INTO jobs (stamp, id, revision, status, type, rank, alarm, worker_id, unique_key,
                          namespace, ended, doc, result, deadline, lane, limit_place,
                          total_place, run)
        VALUES {places} ON CONFLICT DO NOTHING"""


@cache
def insert_payloads(rows: int) -> str:
    return f"INSERT INTO payloads (seq, body) VALUES {_places(rows, 2)}"


@cache
def replace_jobs(rows: int) -> str:
    """Takes the stamp, then the rows. One whose place is another job's is left out."""
    return f"""
        UPDATE OR IGNORE jobs SET stamp = ?, claim = NULL, revision = new.column2,
            status = new.column3, alarm = new.column4, worker_id = new.column5,
            ended = new.column6, doc = new.column7, result = new.column8, place = new.column9,
            deadline = new.column10, lane = new.column11, limit_place = new.column12,
            total_place = new.column13
        FROM (VALUES {_places(rows, 13)}) AS new
        WHERE jobs.id = new.column1 AND jobs.revision = new.column2 - 1
            AND jobs.status NOT IN ('c', 'f', 'x')"""


GIVE_UP_KEY = """
    UPDATE jobs SET unique_key = NULL, revision = ?2,
        doc = json_remove(json_set(doc, '$.revision', ?2), '$.unique_key')
    WHERE id = ?1 AND revision = ?2 - 1"""

REPLACE_PAYLOAD = """
    UPDATE payloads SET body = ?2 WHERE seq = (SELECT seq FROM jobs WHERE id = ?1)"""


@cache
def deliver_callbacks(rows: int) -> str:
    """Takes the stamp, then the rows of jobs that have ended.

    A row has id, revision, alarm, callback, and whether there are still dependents.
    """
    before = "iif(new.column5, doc, json_remove(doc, '$.dependents'))"
    return f"""
        UPDATE jobs SET stamp = ?, revision = new.column2, alarm = new.column3,
            doc = CASE WHEN new.column4 IS NULL
                THEN json_set({before}, '$.revision', new.column2)
                ELSE json_set({before}, '$.revision', new.column2,
                              '$.callback', json(new.column4)) END
        FROM (VALUES {_places(rows, 5)}) AS new
        WHERE jobs.id = new.column1 AND jobs.revision = new.column2 - 1
            AND jobs.status IN ('c', 'f', 'x')"""


@cache
def put_workers(rows: int) -> str:
    columns = "id, revision, last_pinged, is_dead, doc"
    return f"INSERT OR REPLACE INTO workers ({columns}) VALUES {_places(rows, 5)}"


@cache
def front(types: int) -> str:
    """The seqs of the jobs to claim next. Takes each type and the limit, then the limit."""
    one = """
        SELECT seq, rank FROM (
            SELECT seq, rank FROM jobs INDEXED BY ready
            WHERE type = ? AND status = 'q' AND alarm IS NULL AND lane IS NULL
            ORDER BY rank, seq LIMIT ?)"""
    selects = [one] * types
    while len(selects) > 1:
        selects = [
            "SELECT * FROM (" + " UNION ALL ".join(selects[start : start + MOST_COMPOUND]) + ")"
            for start in range(0, len(selects), MOST_COMPOUND)
        ]
    return f"SELECT seq FROM ({selects[0]}) ORDER BY rank, seq LIMIT ?"


HEADS = """
    SELECT json_group_array(json_array(type, rank, seq, ifnull(doc ->> '$.priority', 0)))
    FROM jobs WHERE seq IN (
        SELECT (
            SELECT seq FROM jobs INDEXED BY ready
            WHERE type = value AND status = 'q' AND alarm IS NULL AND lane IS NULL
            ORDER BY rank, seq LIMIT 1)
        FROM json_each(?))"""
"""The first job of each type that has one waiting, whichever types are asked for: one look."""

NUMBERED = "jobs.seq IN (SELECT value FROM json_each(?))"

CLAIM_NUMBERED = f"""
    UPDATE jobs SET status = 'd', revision = revision + 1, claim = ?, alarm = ?, deadline = NULL
    WHERE {NUMBERED}"""
"""Takes the claim and its expiry, then the seqs as JSON."""

START_NUMBERED = f"""
    UPDATE jobs SET status = 'i', revision = revision + 1, claim = ?, alarm = ?, worker_id = ?,
        deadline = NULL
    WHERE {NUMBERED}"""
"""The same for jobs that start at once on one worker: takes its id before the seqs."""


@cache
def start_placed(rows: int) -> str:
    """The same for jobs that have places under limits. One whose place is another's is left out.

    Takes the stamp, the beginning of the claim, the alarm, the worker's id and the beginning of
    places' names, then rows of a seq and the numbers under the limits of the key and of the type.
    """
    held = "ifnull(new.column2, 'null') || ',' || ifnull(new.column3, 'null')"
    return f"""
        UPDATE OR IGNORE jobs SET stamp = ?1, status = 'i', revision = revision + 1,
            claim = ?2 || ',"held":[' || {held} || ']}}', alarm = ?3, worker_id = ?4,
            deadline = NULL, limit_place = ?5 || lane || ' ' || new.column2,
            total_place = ?5 || new.column3
        FROM (VALUES {_places(rows, 3)}) AS new
        WHERE jobs.seq = new.column1"""


START_GUESSED = """
    UPDATE OR IGNORE jobs SET stamp = ?1, status = 'i', revision = revision + 1,
        claim = ?2 || ',"held":[' || ifnull(number % ?6, 'null') || ','
            || ifnull(number % ?7, 'null') || ']}', alarm = ?3, worker_id = ?4, deadline = NULL,
        limit_place = ?5 || lane || ' ' || (number % ?6), total_place = ?5 || (number % ?7)
    FROM (SELECT CAST(key AS INTEGER) AS started, value AS number FROM json_each(?8))
    WHERE jobs.seq = started"""
"""The same for places that were guessed: takes the limits of the key and of the type, and a number
for each seq as JSON. One text is bound in a third of the time of as many rows."""


@cache
def read_jobs(where: str, order: str, *, payload: bool = False, result: bool = False) -> str:
    """One text with the jobs in question. Takes the parameters of `where`, then a limit."""
    return f"""
        SELECT '[' || group_concat(row) || ']' FROM (
            SELECT format('[%d,%d,%s,%s,%s,%s]', jobs.seq, revision, ifnull(claim, 'null'), doc,
                {_hexadecimal("result") if result else "'null'"},
                {_hexadecimal("body") if payload else "'null'"}) AS row
            FROM jobs {"LEFT JOIN payloads ON payloads.seq = jobs.seq" if payload else ""}
            WHERE {where} ORDER BY {order} LIMIT ?)"""


def matching(query: JobQuery) -> tuple[str, Parameters]:
    """The condition for a query, and its parameters."""
    terms = ["true"]
    parameters = []
    if query.status in (Status.DISPATCHING, Status.IN_PROGRESS):
        held = f"SELECT seq FROM jobs INDEXED BY held WHERE status = '{query.status}'"
        terms.append(f"jobs.seq IN ({held})")
    if query.status is Status.WAITING:
        terms.append("status = 'w'")  # what the index holds, in words that let it answer
    if query.run is not None:
        terms.append("run = ?")
        parameters.append(query.run)
    if query.status in FINAL:
        terms.append("ended IS NOT NULL")  # what the index holds, in words that let it answer
    before: tuple[str, ...] = () if query.before is None else (query.before,)
    last = "SELECT seq FROM jobs WHERE id = ?"
    if query.namespace is not None:
        terms.append("namespace = ?")
        parameters.append(query.namespace)
        if query.namespace:
            terms.append("namespace <> ''")  # what the index holds, in words that let it answer
        if before:
            last, before = f"{last} AND namespace = ?", (*before, query.namespace)
    for term, value in (
        ("status = ?", query.status),
        ("type = ?", query.type),
        ("worker_id = ?", query.worker_id),
    ):
        if value is not None:
            terms.append(term)
            parameters.append(str(value))
    if before:
        terms.append(f"jobs.seq < ({last})")
    return " AND ".join(terms), (*parameters, *before)


@cache
def read_workers(where: str) -> str:
    """One text with all workers `where` holds, in the order of their ids."""
    return f"""
        SELECT '[' || group_concat(row) || ']' FROM (
            SELECT format('[%s,%d,%d,%s,%s]', last_pinged, is_dead, revision, doc, (
                SELECT json_group_array(json_array(id, place)) FROM (
                    SELECT id, place FROM jobs INDEXED BY held
                    WHERE worker_id = workers.id AND status = 'i' ORDER BY seq))) AS row
            FROM workers WHERE {where} ORDER BY id)"""


def _places(rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)


def _hexadecimal(column: str) -> str:
    return f"""CASE
        WHEN {column} IS NULL THEN 'null'
        WHEN length({column}) <= {MOST_INLINE_BYTES} THEN '"' || hex({column}) || '"'
        ELSE length({column}) END"""


PUT_DISPATCHER = "INSERT OR REPLACE INTO dispatchers (id, clock, doc) VALUES (?, ?, ?)"

FORGET_DISPATCHERS = "DELETE FROM dispatchers WHERE clock < ?"

DISPATCHERS = "SELECT doc FROM dispatchers ORDER BY id"

RECORDS = """
    SELECT name, revision, doc FROM records
    WHERE kind = ?1 AND (?2 IS NULL OR name < ?2) ORDER BY name DESC LIMIT ?3"""

NAMED_RECORDS = """
    SELECT name, revision, doc FROM records
    WHERE kind = ?1 AND (?2 IS NULL OR name < ?2) AND name IN (SELECT value FROM json_each(?4))
    ORDER BY name DESC LIMIT ?3"""

MAKE_RECORD = """
    INSERT INTO records (kind, name, revision, doc) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT DO NOTHING"""

SWAP_RECORD = """
    UPDATE records SET revision = ?3, doc = ?4
    WHERE kind = ?1 AND name = ?2 AND revision = ?3 - 1"""

REMOVE_RECORD = "DELETE FROM records WHERE kind = ?1 AND name = ?2 AND revision = ?3 - 1"

HAS_RECORD = "SELECT true FROM records WHERE kind = ?1 AND name = ?2"

_ENTRY = "job, kind, key, name, attempt, at, seconds, digest, body"
_ENTERED = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9"
_FIRST = "ON CONFLICT (job, kind, key) DO UPDATE SET key = key"


@cache
def enter_of_runs(rows: int) -> str:
    """Where a claim stands beside the document, the job has started once more than that knows."""
    return f"""
        INSERT INTO journal ({_ENTRY})
        SELECT new.* FROM (VALUES {_places(rows, 9)}) AS new CROSS JOIN jobs ON id = new.column1
        WHERE status = 'i'
            AND coalesce(json_extract(doc, '$.attempt'), 0) + (claim IS NOT NULL) = new.column5
        ON CONFLICT (job, kind, key) DO UPDATE SET name = excluded.name,
            attempt = excluded.attempt, at = excluded.at, seconds = excluded.seconds,
            digest = excluded.digest, body = excluded.body
            WHERE journal.attempt <= excluded.attempt"""


ENTER_SIGNAL = f"""
    INSERT INTO journal ({_ENTRY}) SELECT {_ENTERED} FROM jobs
    WHERE id = ?1 AND status NOT IN ('c', 'f', 'x') {_FIRST}"""
ENTER_COPY = f"""
    INSERT INTO journal ({_ENTRY}) SELECT {_ENTERED}
    WHERE NOT EXISTS (SELECT true FROM jobs WHERE id = ?1) {_FIRST}"""

JOURNAL = """
    SELECT job, kind, key, name, attempt, at, seconds, digest, body FROM journal
    WHERE job = ? AND kind = ? AND key > ? ORDER BY key"""
