"""Which waiting jobs of a limited type start next, on which places, by which tokens. Pure.

Jobs of such a type wait in lanes, one for each value of the key that its limits go by. A claim
sees the fronts of lanes, never all that wait in them: so a key at its limit with any number of
jobs holds up no other. What a store says of places and tokens is true where the claim is one
transaction; elsewhere it is a hint, and the unique index and the compare-and-swap decide.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Sequence

from msgspec import Struct

from shunter.model.job_limits import JobLimits, lanes_held, totals_held

LANES_AT_ONCE = 256
"""How many lanes a claim looks at by one look."""

MOST_LOOKS = 4
"""How often a claim looks further where all lanes that it saw are at their limit."""

FRONTS_AT_ONCE = 2048
"""How many jobs a claim reads of all fronts, where any of them may be the first."""

SORTED_AT_ONCE = 500
"""How many jobs that wait in no lane, or in the wrong one, a claim sorts into theirs."""


class WaitingJob(Struct, frozen=True, array_like=True):
    """A job at the front of its lane. `seq` tells it from others of its rank."""

    lane: str
    rank: int
    seq: int
    priority: int


class LanePlace(Struct, frozen=True, array_like=True):
    """What a job that starts occupies: numbers under the limits of its key and of its type."""

    limit: int | None = None
    total: int | None = None


class LaneChoice(Struct, frozen=True):
    """What a claim decided: which jobs start, by their seqs, in order, and on which places.

    `buckets` says when the next start of each is due from which tokens were taken, and `due` when
    the first token comes that a waiting job lacked. `is_more` says that a lane may have more than
    was seen of it.
    """

    starts: dict[int, LanePlace]
    buckets: dict[str, float]
    due: float | None = None
    is_more: bool = False


def rotated(lanes: Sequence[str], after: str | None) -> list[str]:
    """Return lanes, which are in order, beginning with the one behind `after`."""
    at = 0 if after is None else bisect_right(lanes, after)
    return [*lanes[at:], *lanes[:at]]


class LaneState(Struct):
    """What is taken of a type's places, and when the next start of each bucket is due."""

    limits: JobLimits
    held: dict[str, set[int]]
    totals: set[int]
    next_at: dict[str, float] = {}

    @classmethod
    def read(
        cls, job_type: str, limits: JobLimits, places: Iterable[str], totals: Iterable[str]
    ) -> LaneState:
        """Read it from the places' names."""
        return cls(limits, lanes_held(job_type, places), totals_held(job_type, totals))

    def room(self, lane: str) -> float:
        """Return how many more jobs of one lane may start."""
        if self.limits.per_key is None:
            return self.total_room
        return min(self.total_room, self.limits.per_key - len(self.held.get(lane, ())))

    def is_open(self, lane: str, *, now: float) -> bool:
        """True if a job of this lane may start now."""
        return self.room(lane) >= 1 and self.token_due(lane) <= now

    def token_due(self, lane: str) -> float:
        """Return when the next start in this lane is due."""
        bucket = self.limits.bucket(lane)
        return 0.0 if bucket is None else self.next_at.get(bucket, 0.0)

    def due(self, lanes: Iterable[str], *, now: float) -> float | None:
        """Return when the first token comes for which a lane with room waits."""
        waits = (self.token_due(lane) for lane in lanes if self.room(lane) >= 1)
        return min((at for at in waits if at > now), default=None)

    def has_room(self, lanes: Iterable[str], wanted: int) -> bool:
        """True if as many jobs may start now, whichever of these lanes they are of.

        Then the first of all their jobs are those that start, unless lanes take turns.
        """
        if self.limits.fair or self.limits.rate is not None:
            return False
        return all(self.room(lane) >= wanted for lane in lanes)

    @property
    def total_room(self) -> float:
        """How many more jobs of the type may start."""
        total = self.limits.total
        return float("inf") if total is None else total - len(self.totals)


def depths(lanes: int, wanted: int, limits: JobLimits) -> tuple[int, ...]:
    """Return how many jobs of each of so many lanes to look at, to start up to `wanted`.

    Twice a lane's share; and where that was not enough, since the first of all jobs may be of one
    lane, as many as are wanted, while that is not too much to read.
    """
    lanes = max(1, lanes)
    share = max(1, min(wanted, 2 * -(-wanted // lanes)))
    most = 1 if limits.fair else min(wanted, FRONTS_AT_ONCE // lanes)
    return (share, most) if share < most else (share,)


def is_in_order(choice: LaneChoice, fronts: Sequence[WaitingJob], deep: int) -> bool:
    """True if nothing that was not seen of these lanes goes before what was chosen, by rank."""
    ranks = [job.rank for job in fronts if job.seq in choice.starts]
    seen = Counter(job.lane for job in fronts)
    last = {job.lane: job.rank for job in fronts}
    behind = max(ranks, default=None)
    return behind is None or all(
        last[lane] >= behind for lane, count in seen.items() if count >= deep
    )


def choose(
    state: LaneState,
    fronts: Sequence[WaitingJob],
    *,
    wanted: int,
    now: float,
    deep: int,
    first: int = 0,
) -> LaneChoice:
    """Decide which of the jobs at the fronts of their lanes start.

    `fronts` has the lanes in the order in which it is their turn, and each lane's jobs in the
    order of rank, up to `deep` of them. `first` is where to begin looking for places: claims that
    begin elsewhere meet less often.
    """
    limits, tokens = state.limits, _Tokens(state, now=now)
    starts: dict[int, LanePlace] = {}
    rooms: dict[str, float] = {}  # how many more may start of each lane; 0 where there is no token
    places: dict[str, Iterator[int]] = {}
    totals = _free_numbers(state.totals, limits.total or 0, first)
    has_places, has_total = limits.per_key is not None, limits.total is not None
    left = min(float(wanted), state.total_room)
    order = _by_turns(fronts) if limits.fair else sorted(fronts, key=_place_in_queue)
    for job in order:
        if left < 1:
            break
        lane = job.lane
        if lane not in rooms:
            rooms[lane] = state.room(lane)
            places[lane] = _free_numbers(state.held.get(lane, ()), limits.per_key or 0, first)
        if rooms[lane] < 1:
            continue
        if limits.rate is not None and not tokens.take(lane):
            rooms[lane] = 0
            continue
        number = next(places[lane]) if has_places else None
        starts[job.seq] = LanePlace(number, next(totals) if has_total else None)
        rooms[lane] -= 1
        left -= 1
    seen = Counter(job.lane for job in fronts)
    is_more = left >= 1 and any(count == deep and rooms[lane] >= 1 for lane, count in seen.items())
    return LaneChoice(starts, tokens.taken, tokens.due, is_more)


def _free_numbers(taken: Container[int], count: int, first: int) -> Iterator[int]:
    """Yield the numbers of places that are free, beginning with the one at `first`."""
    for step in range(count):
        if (number := (first + step) % count) not in taken:
            yield number


def _place_in_queue(job: WaitingJob) -> tuple[int, int]:
    return job.rank, job.seq


def _by_turns(fronts: Iterable[WaitingJob]) -> Iterator[WaitingJob]:
    """Yield jobs in rounds: one of each lane whose first job has the priority of the very first."""
    lanes: dict[str, deque[WaitingJob]] = {}
    for job in fronts:
        lanes.setdefault(job.lane, deque()).append(job)
    while lanes:
        lead = min((jobs[0] for jobs in lanes.values()), key=_place_in_queue)
        for lane, jobs in list(lanes.items()):
            if jobs[0].priority == lead.priority:
                yield jobs.popleft()
                if not jobs:
                    del lanes[lane]


class _Tokens:
    """The buckets of one claim."""

    def __init__(self, state: LaneState, *, now: float) -> None:
        self._limits, self._now = state.limits, now
        self._next_at = state.next_at
        self.taken: dict[str, float] = {}
        self.due: float | None = None

    def take(self, lane: str) -> bool:
        """Take a token for a job of this lane; False where there is none yet."""
        bucket, rate = self._limits.bucket(lane), self._limits.rate
        if bucket is None or rate is None:
            return True
        next_at = self.taken.get(bucket, self._next_at.get(bucket, 0.0))
        after = rate.taken(next_at, now=self._now)
        if after is None:
            self.due = next_at if self.due is None else min(self.due, next_at)
            return False
        self.taken[bucket] = after
        return True
