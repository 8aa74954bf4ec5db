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
from msgspec import Struct
from msgspec.structs import replace as changed

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
    """The places of a type that are taken; they are between ?4 and ?5."""
    return f"""
        SELECT json_group_array({column}) FROM jobs INDEXED BY {column}s
        WHERE {column} > ?4 AND {column} < ?5"""


def _following(comparison: str) -> str:
    return f"""
        SELECT lane FROM jobs INDEXED BY lanes
        WHERE type = ?1 AND lane {comparison} AND {_WAITS} ORDER BY lane LIMIT 1"""


def _lanes(beginning: str) -> str:
    """The lanes of a type in order, up to a number; `beginning` compares with the first."""
    return f"""
        WITH RECURSIVE found(name) AS (
            SELECT ({_following(beginning)})
            UNION ALL
            SELECT ({_following("> found.name")}) FROM found WHERE name IS NOT NULL LIMIT ?3)
        SELECT json_group_array(name) FROM found WHERE name IS NOT NULL"""


LANES_FROM_FIRST, LANES_AFTER = _lanes(">= ''"), _lanes("> ?2")

_VIEW, _VIEW_AFTER = (
    f"""
    SELECT json_array(
        EXISTS (
            SELECT true FROM jobs INDEXED BY ready
            WHERE type = ?1 AND status = 'q' AND alarm IS NULL AND lane IS NULL),
        ({_following(">= ''")}), ({_following(">= ?6")}),
        json(({_held("limit_place")})), json(({_held("total_place")})),
        json(({LANES_FROM_FIRST})), json(({after})))"""
    for after in ("SELECT json_array(?2)", LANES_AFTER)
)
"""All that a claim must know first, by one step: `_LaneView`."""


class _LaneView(Struct, frozen=True, array_like=True):
    """What is seen of a type: jobs in no lane, the first lane, the first behind those of a key, the
    places that are taken, the lanes from the beginning, and those from behind one.
    """

    is_unsorted: int
    first: str | None
    behind: str | None
    places: list[str]
    totals: list[str]
    lanes: list[str]
    lanes_after: list[str | None]

    def strange(self, limits: JobLimits) -> set[str]:
        """The lanes seen that are not those of these limits."""
        seen = {lane for lane in (self.first, self.behind) if lane is not None}
        return {lane for lane in seen if not limits.is_lane(lane)}

    def rotated(self, after: str | None) -> list[str]:
        """The lanes from behind `after`, and then from the beginning up to it."""
        if after is None:
            return self.lanes
        behind = [lane for lane in self.lanes_after if lane is not None]
        return [*behind, *(lane for lane in self.lanes if lane <= after)][:LANES_AT_ONCE]


_decode_view = msgspec.json.Decoder(_LaneView).decode


def claim(
    connection: sqlite3.Connection, wish: Claim, limits: JobLimits
) -> tuple[list[Job], LaneLook]:
    """Take what the limits of a type allow."""
    (job_type,) = wish.types
    after, is_more = wish.after, False
    view = _view(connection, job_type, limits, after)
    if view.is_unsorted or view.strange(limits):
        is_more = _sort(connection, job_type, limits, view)
        view = _view(connection, job_type, limits, after)
    state = LaneState.read(job_type, limits, view.places, view.totals)
    if wish.limit <= 0 or state.total_room < 1:
        return [], LaneLook(wish.after, is_more=is_more)
    revisions: dict[str, int] = {}
    for _ in range(MOST_LOOKS):
        lanes = view.rotated(after)
        _read_buckets(connection, job_type, state, lanes, revisions)
        opened = [lane for lane in lanes if state.is_open(lane, now=wish.now)]
        if opened or len(lanes) < LANES_AT_ONCE:
            break
        after = lanes[-1]
        view = _view(connection, job_type, limits, after)
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
    return jobs, changed(look, is_more=look.is_more or is_more)


def counts(connection: sqlite3.Connection, limit: int) -> list[LaneCount]:
    """Count the jobs of lanes."""
    return [
        LaneCount(type=kind, lane=lane, running=running, waiting=waiting)
        for kind, lane, running, waiting in _decode_counts(reads.value(connection, _COUNTS, limit))
    ]


def _view(
    connection: sqlite3.Connection, job_type: str, limits: JobLimits, after: str | None
) -> _LaneView:
    low, high = texts_between(job_type)
    behind = f"{limits.key}>"  # the character behind the "=" of a lane
    text = _VIEW if after is None else _VIEW_AFTER
    found = reads.value(connection, text, job_type, after, LANES_AT_ONCE, low, high, behind)
    return _decode_view(found)


def _sort(
    connection: sqlite3.Connection, job_type: str, limits: JobLimits, view: _LaneView
) -> bool:
    """Put jobs into their lanes that are in none, or in another key's; True if there are more."""
    found = _decode_keys(reads.value(connection, _UNSORTED, job_type, SORTED_AT_ONCE))
    for lane in view.strange(limits):
        found += _decode_keys(reads.value(connection, _OF_LANE, job_type, SORTED_AT_ONCE, lane))
    sorted_in = [(seq, limits.lane(keys or {})) for seq, keys in found]
    connection.execute(_SORT, (as_json(sorted_in),))
    return len(found) >= SORTED_AT_ONCE


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
