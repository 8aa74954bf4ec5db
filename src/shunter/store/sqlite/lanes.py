"""Claims under limits: how a lane's front is found without reading what waits behind it.

The lanes of a type are found by jumping from one to the next in the index `lanes`, and of each
only the front is read. All of a claim is one transaction, so what it reads of places and tokens
is true until it has written.
"""

# ruff: noqa: S608  Only texts of our own are joined here; what comes from outside is a parameter.

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from itertools import accumulate
from zlib import crc32

import msgspec

from shunter.model.job import Dispatch, Job
from shunter.model.job_limits import JobLimits, texts_between
from shunter.model.lane_claim import (
    LANES_AT_ONCE,
    MOST_LOOKS,
    SORTED_AT_ONCE,
    LaneLook,
    LanePlace,
    LaneState,
    WaitingJob,
    choose,
    depth,
    look_after,
)
from shunter.model.lifecycle import occupying, started_at_once
from shunter.model.limits_record import LaneCount
from shunter.model.record import RecordKind
from shunter.store.port import Claim
from shunter.store.sqlite import reads, statements
from shunter.store.sqlite.rows import JobRow, as_json, replaced
from shunter.store.sqlite.writes import replace

_decode_texts = msgspec.json.Decoder(list[str]).decode
_decode_keys = msgspec.json.Decoder(list[tuple[int, dict[str, str] | None]]).decode
_decode_fronts = msgspec.json.Decoder(list[WaitingJob]).decode
_decode_counts = msgspec.json.Decoder(list[tuple[str, str, int, int]]).decode

_WAITS = "status = 'q' AND alarm IS NULL AND lane IS NOT NULL"
_UNSORTED = """
    SELECT json_group_array(json_array(seq, json(doc -> '$.keys'))) FROM (
        SELECT seq, doc FROM jobs INDEXED BY ready
        WHERE type = ?1 AND status = 'q' AND alarm IS NULL AND lane IS NULL LIMIT ?2)"""
_OF_LANE = f"""
    SELECT json_group_array(json_array(seq, json(doc -> '$.keys'))) FROM (
        SELECT seq, doc FROM jobs INDEXED BY lanes
        WHERE type = ?1 AND lane = ?3 AND {_WAITS} LIMIT ?2)"""
_SORT = """
    UPDATE jobs SET lane = new.lane, doc = json_set(doc, '$.lane', new.lane)
    FROM (SELECT value ->> 0 AS seq, value ->> 1 AS lane FROM json_each(?)) AS new
    WHERE jobs.seq = new.seq"""
_FRONTS = f"""
    SELECT json_group_array(json_array(lane, rank, seq, ifnull(doc ->> '$.priority', 0))) FROM (
        SELECT jobs.* FROM json_each(?1) AS wanted CROSS JOIN jobs
        WHERE jobs.seq IN (
            SELECT seq FROM jobs INDEXED BY lanes
            WHERE type = ?2 AND lane = wanted.value AND {_WAITS} ORDER BY rank, seq LIMIT ?3)
        ORDER BY wanted.key, rank, jobs.seq)"""
_BUCKETS = f"SELECT name, revision, doc FROM records WHERE kind = ? AND name IN {statements.LISTED}"
_PUT_BUCKET = "INSERT OR REPLACE INTO records (kind, name, revision, doc) VALUES (?, ?, ?, ?)"
_COUNTS = f"""
    SELECT json_group_array(json_array(type, lane, running, waiting)) FROM (
        SELECT type, lane, sum(running) AS running, sum(waiting) AS waiting FROM (
            SELECT type, lane, count(*) AS running, 0 AS waiting FROM jobs INDEXED BY held
            WHERE (status = 'd' OR status = 'i') AND lane IS NOT NULL GROUP BY type, lane
            UNION ALL
            SELECT type, lane, 0, count(*) FROM jobs INDEXED BY lanes
            WHERE {_WAITS} GROUP BY type, lane
        ) GROUP BY type, lane ORDER BY sum(running) + sum(waiting) DESC, type, lane LIMIT ?)"""


def _held(column: str) -> str:
    return f"""
        SELECT json_group_array({column}) FROM jobs INDEXED BY {column}s
        WHERE {column} > ? AND {column} < ?"""


def _lanes(beginning: str) -> str:
    """The lanes of a type in order, up to a number; `beginning` compares with the first."""
    following = f"""
        SELECT lane FROM jobs INDEXED BY lanes
        WHERE type = ?1 AND lane %s AND {_WAITS} ORDER BY lane LIMIT 1"""
    return f"""
        WITH RECURSIVE found(name) AS (
            SELECT ({following % beginning})
            UNION ALL
            SELECT ({following % "> found.name"}) FROM found WHERE name IS NOT NULL LIMIT ?3)
        SELECT json_group_array(name) FROM found WHERE name IS NOT NULL"""


_LANES_FROM, _LANES_AFTER = _lanes(">= ?2"), _lanes("> ?2")


def claim(
    connection: sqlite3.Connection, wish: Claim, limits: JobLimits
) -> tuple[list[Job], LaneLook]:
    """Take what the limits of a type allow."""
    (job_type,) = wish.types
    is_more = _sort(connection, job_type, limits)
    state = LaneState.read(
        job_type,
        limits,
        _decode_texts(reads.value(connection, _held("limit_place"), *texts_between(job_type))),
        _decode_texts(reads.value(connection, _held("total_place"), *texts_between(job_type))),
    )
    if wish.limit <= 0 or state.total_room < 1:
        return [], LaneLook(wish.after, is_more=is_more)
    revisions: dict[str, int] = {}
    after = wish.after
    for _ in range(MOST_LOOKS):
        lanes = _lanes_after(connection, job_type, after)
        _read_buckets(connection, job_type, state, lanes, revisions)
        opened = [lane for lane in lanes if state.is_open(lane, now=wish.now)]
        if opened or len(lanes) < LANES_AT_ONCE:
            break
        after = lanes[-1]
    fronts: list[WaitingJob] = []
    deep = depth(len(opened), wish.limit)
    if opened:
        text = reads.value(connection, _FRONTS, as_json(opened), job_type, deep)
        fronts = _decode_fronts(text)
    first = crc32(wish.dispatcher_id.encode()) + int(wish.now * 1000)
    choice = choose(state, fronts, wanted=wish.limit, now=wish.now, deep=deep, first=first)
    jobs = _taken(connection, wish, choice.starts) if choice.starts else []
    for bucket, next_at in choice.buckets.items():
        name = _bucket_name(job_type, bucket)
        row = (RecordKind.RATE, name, revisions.get(name, 0) + 1, as_json(next_at))
        connection.execute(_PUT_BUCKET, row)
    last = jobs[-1].lane if jobs else None
    look = look_after(choice, state, lanes, last, now=wish.now, before=wish.after)
    return jobs, msgspec.structs.replace(look, is_more=look.is_more or is_more)


def counts(connection: sqlite3.Connection, limit: int) -> list[LaneCount]:
    """Count the jobs of lanes."""
    return [
        LaneCount(type=kind, lane=lane, running=running, waiting=waiting)
        for kind, lane, running, waiting in _decode_counts(reads.value(connection, _COUNTS, limit))
    ]


def _sort(connection: sqlite3.Connection, job_type: str, limits: JobLimits) -> bool:
    """Put jobs into their lanes that are in none, or in another key's; True if there are more."""
    found = _decode_keys(reads.value(connection, _UNSORTED, job_type, SORTED_AT_ONCE))
    beginnings = ("", f"{limits.key}=")  # the first lane of all, and the one behind ours
    for lane in {it for at in beginnings for it in _from(connection, job_type, at, limits)}:
        found += _decode_keys(reads.value(connection, _OF_LANE, job_type, SORTED_AT_ONCE, lane))
    if found:
        sorted_in = [(seq, limits.lane(keys or {})) for seq, keys in found]
        connection.execute(_SORT, (as_json(sorted_in),))
    return len(found) >= SORTED_AT_ONCE


def _from(
    connection: sqlite3.Connection, job_type: str, beginning: str, limits: JobLimits
) -> list[str]:
    """Return the first lane at or behind `beginning` that is not one of these limits'."""
    behind = f"{beginning[:-1]}>" if beginning else ""  # the character behind "=" is ">"
    found = _decode_texts(reads.value(connection, _LANES_FROM, job_type, behind, 1))
    return [lane for lane in found if not limits.is_lane(lane)]


def _lanes_after(connection: sqlite3.Connection, job_type: str, after: str | None) -> list[str]:
    """Return lanes in order from behind `after`, and then from the beginning up to it."""
    if after is None:
        text = reads.value(connection, _LANES_FROM, job_type, "", LANES_AT_ONCE)
        return _decode_texts(text)
    text = reads.value(connection, _LANES_AFTER, job_type, after, LANES_AT_ONCE)
    lanes = _decode_texts(text)
    if len(lanes) < LANES_AT_ONCE:
        wanted = LANES_AT_ONCE - len(lanes)
        text = reads.value(connection, _LANES_FROM, job_type, "", wanted)
        lanes += [lane for lane in _decode_texts(text) if lane <= after]
    return lanes


def _read_buckets(
    connection: sqlite3.Connection,
    job_type: str,
    state: LaneState,
    lanes: Sequence[str],
    revisions: dict[str, int],
) -> None:
    """Read when starts are due from the buckets of these lanes."""
    buckets = {bucket for lane in lanes if (bucket := state.limits.bucket(lane)) is not None}
    if not buckets:
        return
    names = {_bucket_name(job_type, bucket): bucket for bucket in buckets}
    for name, revision, doc in connection.execute(
        _BUCKETS, (RecordKind.RATE, as_json(list(names)))
    ):
        revisions[name] = revision
        state.next_at[names[name]] = float(doc)


def _bucket_name(job_type: str, bucket: str) -> str:
    return f"{job_type} {bucket}"


def _taken(connection: sqlite3.Connection, wish: Claim, starts: dict[int, LanePlace]) -> list[Job]:
    """Claim these jobs on their places, and start them if there are slots."""
    made = Dispatch(wish.dispatcher_id, wish.now, wish.expiry)
    kept: list[int] = []

    def within_bytes(rows: list[JobRow]) -> list[JobRow]:
        by_seq = {row.seq: row for row in rows}
        sizes = accumulate((by_seq[seq].payload_bytes for seq in starts), initial=0)
        pairs = zip(starts, sizes, strict=False)
        kept[:] = [seq for seq, before in pairs if before < wish.most_bytes]
        return [by_seq[seq] for seq in kept]

    jobs = reads.jobs(
        connection,
        statements.NUMBERED,
        (as_json(list(starts)),),
        payload=True,
        claim=made,
        keep=within_bytes,
    )
    jobs = [occupying(job, starts[seq]) for seq, job in zip(kept, jobs, strict=True)]
    if wish.slots:
        jobs = [started_at_once(job, slot) for job, slot in zip(jobs, wish.slots, strict=False)]
    written = replace(connection, [replaced(job) for job in jobs], secrets.randbits(48))
    assert all(written)
    return jobs
