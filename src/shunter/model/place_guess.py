"""Which places under limits are very likely free, without a look at those that are taken. Pure.

The store refuses a place that is another job's, so a guess is never wrong, only in vain. It is made
while a full look, a moment ago, has found far more room than is wanted: the numbers go round, and
one comes again when as many jobs have started as the limit allows at once. Where limits bind, and
where few jobs wait, every claim looks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from shunter.model.job_limits import MAX_PLACES, JobLimits
from shunter.model.lane_claim import LANES_AT_ONCE, LaneState, rotated

KEPT_SECONDS = 0.25
"""How long a look counts. A lane that is new waits that long, where others have jobs enough."""

PART_OF_ROOM = 2
"""The part of the room that is given away without a look is 1 / this."""


class PlaceGuess(Struct, frozen=True):
    """What a full look has found: lanes in order, how many jobs may start without another look.

    `next_at` and `revisions` are those of the buckets.
    """

    limits: JobLimits
    lanes: Sequence[str]
    looked_at: float
    spare: int
    next_at: Mapping[str, float] = {}
    revisions: Mapping[str, int] = {}

    @property
    def state(self) -> LaneState:
        """As if no place was taken."""
        return LaneState(self.limits, {}, set(), dict(self.next_at))

    def lanes_after(self, after: str | None) -> list[str]:
        """The lanes in the order in which it is their turn."""
        return rotated(self.lanes, after)


class PlaceGuesses:
    """The guesses that one process may make, by type."""

    def __init__(self) -> None:
        self._by_type: dict[str, PlaceGuess] = {}
        self._first: dict[str, int] = {}

    def first(self, job_type: str, *, dispatcher_id: str, now: float) -> int:
        """Return where to begin with numbers: behind those given last, apart from others."""
        return self._first.setdefault(job_type, crc32(dispatcher_id.encode()) + int(now * 1000))

    def of(self, job_type: str, limits: JobLimits, *, wanted: int, now: float) -> PlaceGuess | None:
        """Return what to go by, or None where a full look is due."""
        guess = self._by_type.get(job_type)
        if guess is None or guess.limits != limits or guess.spare < wanted:
            return None
        return guess if 0 <= now - guess.looked_at < KEPT_SECONDS else None

    def looked(
        self,
        job_type: str,
        state: LaneState,
        lanes: Sequence[str],
        *,
        started: int,
        now: float,
        revisions: Mapping[str, int] | None = None,
    ) -> None:
        """Note what a full look has found, before the jobs that it started."""
        spare = _spare(state, lanes) - started if len(lanes) < LANES_AT_ONCE else 0
        self._by_type[job_type] = PlaceGuess(
            state.limits,
            sorted(lanes),
            now,
            spare,
            state.next_at,
            revisions or {},
        )
        self._first[job_type] += started

    def started(self, job_type: str, count: int) -> None:
        """Note that jobs have started on places that were guessed."""
        if guess := self._by_type.get(job_type):
            self._by_type[job_type] = replace(guess, spare=guess.spare - count)
        self._first[job_type] += count

    def took_tokens(self, job_type: str, next_at: Mapping[str, float]) -> None:
        """Note when the next starts are due; each bucket is one revision further."""
        if guess := self._by_type.get(job_type):
            revisions = {it: guess.revisions.get(it, 0) + 1 for it in next_at}
            self._by_type[job_type] = replace(
                guess,
                next_at={**guess.next_at, **next_at},
                revisions={**guess.revisions, **revisions},
            )

    def forget(self, job_type: str) -> None:
        """Look the next time: a guess was in vain, or there was less to start than was wanted."""
        self._by_type.pop(job_type, None)


def _spare(state: LaneState, lanes: Sequence[str]) -> int:
    """How many jobs may start anywhere without a look."""
    rooms = [_room(state.limits.total, state.totals)]
    rooms += [_room(state.limits.per_key, state.held.get(lane, ())) for lane in lanes]
    return min(rooms) // PART_OF_ROOM


def _room(limit: int | None, held: Collection[int]) -> int:
    """How many of these places are free; none where some are left of a limit that was higher."""
    if limit is None:
        return MAX_PLACES
    return limit - len(held) if max(held, default=0) < limit else 0
