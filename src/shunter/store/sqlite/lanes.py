"""Claims under limits: how a lane's front is found without reading what waits behind it.

The lanes of a type are found by jumping from one to the next in the index `lanes`, and of each
only the front is read. All of a claim is one transaction, so what it reads of places and tokens
is true until it has written.
"""

# ruff: noqa: S608  Only texts of our own are joined here; what comes from outside is a parameter.

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import msgspec
from msgspec import Struct
from msgspec.structs import replace as changed

from shunter.model.job import Dispatch, Job
from shunter.model.job_limits import JobLimits, texts_between
from shunter.model.lane_claim import (
    LANES_AT_ONCE,
    MOST_LOOKS,
    SORTED_AT_ONCE,
    LaneChoice,
    LanePlace,
    LaneState,
    WaitingJob,
    choose,
    depths,
    is_in_order,
)
from shunter.model.lifecycle import occupying, started_at_once
from shunter.model.limits_record import LaneCount
from shunter.model.place_guess import (
    LaneLook,
    look_after,
    places_at,
    seen_by_guess,
    seen_by_look,
)
from shunter.model.record import RecordKind
from shunter.store.port import Claim
from shunter.store.sqlite import reads, statements
from shunter.store.sqlite.rows import JobRow, as_json, replaced
from shunter.store.sqlite.writes import replace, start_guessed, start_placed

MOST_MERGED = 16
"""Of so many lanes the first jobs are merged; with more, SQLite compares each with all others."""

_decode_merged = msgspec.json.Decoder(list[WaitingJob]).decode
_decode_seqs = msgspec.json.Decoder(list[int]).decode
_decode_keys = msgspec.json.Decoder(list[tuple[int, dict[str, str] | None]]).decode
_decode_fronts = msgspec.json.Decoder(list[list[WaitingJob]]).decode
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


def _fronts(priority: str) -> str:
    """For each lane, its first jobs; without a priority the index alone answers."""
    return f"""
        SELECT json_group_array(json((
            SELECT json_group_array(json_array(wanted.value, rank, seq, priority)) FROM (
                SELECT rank, seq, {priority} AS priority FROM jobs INDEXED BY lanes
                WHERE type = ?2 AND lane = wanted.value AND {_WAITS}
                ORDER BY rank, seq LIMIT ?3))))
        FROM json_each(?1) AS wanted"""


@cache
def first_of_all(lanes: int, found: str = "json_array(lane, rank, seq, 0)") -> str:
    """The first jobs of all of these lanes, which SQLite merges: it reads no more than it returns.

    Takes the type and how many, then the lanes. `found` is what is wanted of each.
    """
    each = f"""
        SELECT lane, rank, seq FROM jobs INDEXED BY lanes
        WHERE type = ?1 AND lane = ?%d AND {_WAITS}"""
    merged = " UNION ALL ".join(each % number for number in range(3, 3 + lanes))
    return f"""
        SELECT json_group_array({found}) FROM (
            {merged} ORDER BY rank, seq LIMIT ?2)"""


# A document without the word is not parsed: most jobs have no priority.
FRONTS = _fronts("0")
_FRONTS_IN_TURNS = _fronts("iif(instr(doc, '\"priority\"'), ifnull(doc ->> '$.priority', 0), 0)")
_BUCKETS = f"SELECT name, doc FROM records WHERE kind = ? AND name IN {statements.LISTED}"
_PUT_BUCKET = """
    INSERT INTO records (kind, name, revision, doc) VALUES (?, ?, 1, ?)
    ON CONFLICT DO UPDATE SET revision = revision + 1, doc = excluded.doc"""
_COUNTS = f"""
    SELECT json_group_array(json_array(type, lane, running, waiting)) FROM (
        SELECT type, lane, sum(running) AS running, sum(waiting) AS waiting FROM (
            SELECT type, lane, count(*) AS running, 0 AS waiting FROM jobs INDEXED BY held
            WHERE (status = 'd' OR status = 'i') AND lane IS NOT NULL GROUP BY type, lane
            UNION ALL
            SELECT type, lane, 0, count(*) FROM jobs INDEXED BY lanes
            WHERE {_WAITS} GROUP BY type, lane
        ) GROUP BY type, lane ORDER BY sum(running) + sum(waiting) DESC, type, lane LIMIT ?)"""


_TOTALS = """
    SELECT json_group_array(CAST(substr(total_place, length(?4) + 1) AS INTEGER))
    FROM jobs INDEXED BY total_places WHERE total_place > ?4 AND total_place < ?5"""
"""The numbers of a type that are taken; their texts are between ?4 and ?5."""

_HELD = """
    SELECT json_group_array(CAST(number AS INTEGER)) FROM (
        SELECT substr(limit_place, length(?4 || name) + 2) AS number
        FROM jobs INDEXED BY limit_places
        WHERE limit_place > ?4 || name || ' ' AND limit_place < ?4 || name || '!')
    WHERE instr(number, ' ') = 0"""
"""The numbers of a lane that are taken; a name may go on behind a space as another lane's."""


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
        SELECT json_group_array(json_array(name, json(({_HELD}))))
        FROM found WHERE name IS NOT NULL"""


LANES_FROM_FIRST, LANES_AFTER = _lanes(">= ''"), _lanes("> ?2")

_IS_UNSORTED = """
    EXISTS (
        SELECT true FROM jobs INDEXED BY ready
        WHERE type = ?1 AND status = 'q' AND alarm IS NULL AND lane IS NULL)"""
_IS_WAITING = f"""
    SELECT {_IS_UNSORTED} OR EXISTS (
        SELECT true FROM jobs INDEXED BY lanes WHERE type = ?1 AND {_WAITS})"""

_VIEW, _VIEW_AFTER = (
    f"""
    SELECT json_array(
        {_IS_UNSORTED},
        ({_following(">= ''")}), ({_following(">= ?6")}),
        json(({_TOTALS})), json(({LANES_FROM_FIRST})), json(({after})))"""
    for after in ("SELECT json_array()", LANES_AFTER)
)
"""All that a claim must know first, by one step: `_LaneView`."""


class _LaneView(Struct, frozen=True, array_like=True):
    """What is seen of a type: jobs in no lane, the first lane, the first behind those of a key, the
    places that are taken of the type, the lanes from the beginning, and those from behind one, each
    with the places that are taken of it.
    """

    is_unsorted: int
    first: str | None
    behind: str | None
    totals: set[int]
    lanes: list[tuple[str, set[int]]]
    lanes_after: list[tuple[str, set[int]]]

    def strange(self, limits: JobLimits) -> set[str]:
        """The lanes seen that are not those of these limits."""
        seen = {lane for lane in (self.first, self.behind) if lane is not None}
        return {lane for lane in seen if not limits.is_lane(lane)}

    def rotated(self, after: str | None) -> dict[str, set[int]]:
        """The lanes from behind `after`, and then from the beginning up to it."""
        if after is None:
            return dict(self.lanes)
        before = [(lane, held) for lane, held in self.lanes if lane <= after]
        return dict([*self.lanes_after, *before][:LANES_AT_ONCE])


_decode_view = msgspec.json.Decoder(_LaneView).decode


def claim(
    connection: sqlite3.Connection, request: Claim, limits: JobLimits
) -> tuple[list[Job], LaneLook]:
    """Take what the limits of a type allow: by a guess, or if there is none, after a look."""
    if (guess := request.fresh_guess) is not None and request.limit > 0:
        state, lanes = guess.state, guess.lanes_after(request.after)
        _read_buckets(connection, request.types[0], state, lanes)
        is_merged = len(lanes) <= MOST_MERGED and state.has_room(lanes, request.limit)
        started = _Start.by_guess if is_merged else _Start.of
        start = started(connection, request, state, lanes)
        count = len(start.jobs)
        is_rest = count < request.limit and _is_waiting(connection, request.types[0])
        if count or not is_rest:
            look, choice = start.look, start.choice
            wanted = request.limit
            return start.jobs, seen_by_guess(
                look, guess, choice, started=count, wanted=wanted, is_rest=is_rest
            )
    return _look(connection, request, limits)


def _look(
    connection: sqlite3.Connection, request: Claim, limits: JobLimits
) -> tuple[list[Job], LaneLook]:
    """Look at lanes and places, sort what waits in no lane, and start what may start."""
    (job_type,) = request.types
    after, is_more = request.after, False
    view = _view(connection, job_type, limits, after)
    if view.is_unsorted or view.strange(limits):
        is_more = _sort(connection, job_type, limits, view)
        view = _view(connection, job_type, limits, after)
    state = LaneState(limits, view.rotated(after), view.totals)
    if request.limit <= 0 or state.total_room < 1:
        return [], LaneLook(request.after, is_more=is_more)
    for _ in range(MOST_LOOKS):
        lanes = list(state.held)
        _read_buckets(connection, job_type, state, lanes)
        is_open = any(state.is_open(lane, now=request.now) for lane in lanes)
        if is_open or len(lanes) < LANES_AT_ONCE:
            break
        after = lanes[-1]
        state.held = _view(connection, job_type, limits, after).rotated(after)
    start = _Start.of(connection, request, state, lanes)
    look = seen_by_look(
        start.look,
        state,
        lanes,
        start.choice,
        fronts=start.fronts,
        started=len(start.jobs),
        now=request.now,
    )
    return start.jobs, changed(look, is_more=look.is_more or is_more)


class _Start(Struct, frozen=True):
    """What a claim has started, of how many jobs that it saw at the fronts of lanes."""

    jobs: list[Job]
    choice: LaneChoice
    look: LaneLook
    fronts: int

    @classmethod
    def of(
        cls, connection: sqlite3.Connection, request: Claim, state: LaneState, lanes: Sequence[str]
    ) -> _Start:
        """Start what may start in these lanes."""
        (job_type,), limits = request.types, state.limits
        opened = [lane for lane in lanes if state.is_open(lane, now=request.now)]
        choice, fronts = LaneChoice({}, {}), list[WaitingJob]()
        is_merged = len(opened) <= MOST_MERGED and state.has_room(opened, request.limit)
        deeper = (request.limit,) if is_merged else depths(len(opened), request.limit, limits)
        for deep in deeper if opened else ():
            if is_merged:
                fronts = _read_merged(connection, job_type, opened, deep)
            else:
                fronts = _read_fronts(connection, job_type, opened, limits, deep)
            choice = choose(
                state, fronts, wanted=request.limit, now=request.now, deep=deep, first=request.first
            )
            if is_merged or limits.fair or is_in_order(choice, fronts, deep):
                break
        jobs = _taken(connection, request, choice.starts) if choice.starts else []
        for bucket, next_at in choice.buckets.items():
            row = (RecordKind.RATE, _bucket_name(job_type, bucket), as_json(next_at))
            connection.execute(_PUT_BUCKET, row)
        last = jobs[-1].lane if jobs else None
        look = look_after(choice, state, lanes, last, now=request.now, before=request.after)
        return cls(jobs, choice, look, len(fronts))

    @classmethod
    def by_guess(
        cls, connection: sqlite3.Connection, request: Claim, state: LaneState, lanes: Sequence[str]
    ) -> _Start:
        """Start the first jobs of all these lanes, which have room, on places in a row."""
        fronts = _read_first_seqs(connection, request.types[0], lanes, request.limit)
        numbers = range(request.first, request.first + len(fronts))
        starts = dict(zip(fronts, places_at(state.limits, numbers), strict=True))
        choice = LaneChoice(starts, {})
        jobs = _taken(connection, request, starts, is_guess=True) if starts else []
        last = jobs[-1].lane if jobs else None
        look = look_after(choice, state, lanes, last, now=request.now, before=request.after)
        return cls(jobs, choice, look, len(fronts))


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
    connection: sqlite3.Connection, job_type: str, state: LaneState, lanes: Sequence[str]
) -> None:
    """Read when starts are due from the buckets of these lanes."""
    buckets = {bucket for lane in lanes if (bucket := state.limits.bucket(lane)) is not None}
    if not buckets:
        return
    names = {_bucket_name(job_type, bucket): bucket for bucket in buckets}
    for name, doc in connection.execute(_BUCKETS, (RecordKind.RATE, as_json(list(names)))):
        state.next_at[names[name]] = float(doc)


def _read_fronts(
    connection: sqlite3.Connection,
    job_type: str,
    lanes: Sequence[str],
    limits: JobLimits,
    deep: int,
) -> list[WaitingJob]:
    """Read the first jobs of these lanes; their priorities only where it is about turns."""
    text = _FRONTS_IN_TURNS if limits.fair else FRONTS
    found = _decode_fronts(reads.value(connection, text, as_json(lanes), job_type, deep))
    return [job for jobs in found for job in jobs]


def _read_merged(
    connection: sqlite3.Connection, job_type: str, lanes: Sequence[str], wanted: int
) -> list[WaitingJob]:
    """Read the first jobs of all of these lanes, in the order of the queue."""
    if not lanes:
        return []
    return _decode_merged(
        reads.value(connection, first_of_all(len(lanes)), job_type, wanted, *lanes)
    )


def _read_first_seqs(
    connection: sqlite3.Connection, job_type: str, lanes: Sequence[str], wanted: int
) -> list[int]:
    """Read of the same jobs the seqs alone."""
    if not lanes:
        return []
    text = first_of_all(len(lanes), "seq")
    return _decode_seqs(reads.value(connection, text, job_type, wanted, *lanes))


def _is_waiting(connection: sqlite3.Connection, job_type: str) -> bool:
    """True if any job of a type could be claimed, in a lane or in none."""
    return bool(reads.value(connection, _IS_WAITING, job_type))


def _bucket_name(job_type: str, bucket: str) -> str:
    return f"{job_type} {bucket}"


def _taken(
    connection: sqlite3.Connection,
    request: Claim,
    starts: dict[int, LanePlace],
    *,
    is_guess: bool = False,
) -> list[Job]:
    """Claim these jobs on their places, and start them if there are slots.

    Those whose places are others' stay in the queue. Guessed places follow each other.
    """
    made = Dispatch(request.dispatcher_id, request.now, request.expiry)
    kept: list[int] = []

    def within_bytes(rows: list[JobRow]) -> list[JobRow]:
        by_seq = {row.seq: row for row in rows}
        kept[:] = starts
        if sum(row.payload_bytes for row in rows) >= request.most_bytes:
            sizes = accumulate((by_seq[seq].payload_bytes for seq in starts), initial=0)
            pairs = zip(starts, sizes, strict=False)
            kept[:] = [seq for seq, before in pairs if before < request.most_bytes]
        return [by_seq[seq] for seq in kept]

    jobs = reads.jobs(
        connection,
        statements.NUMBERED,
        (as_json(list(starts)),),
        payload=True,
        claim=made,
        keep=within_bytes,
    )
    places = [starts[seq] for seq in kept]
    if request.slots:
        triples = zip(jobs, request.slots, places, strict=False)
        jobs = [started_at_once(job, slot, held) for job, slot, held in triples]
        if is_guess and request.limits is not None:
            written = start_guessed(
                connection, jobs, kept, request.slots, request.limits, request.first
            )
        else:
            written = start_placed(connection, jobs, kept, request.slots)
    else:
        jobs = [occupying(job, held) for job, held in zip(jobs, places, strict=True)]
        written = replace(connection, [replaced(job) for job in jobs])
    return [job for job, was_free in zip(jobs, written, strict=True) if was_free]
