"""What a claim under limits leaves behind: where the next one begins, and which places are likely
to be free. Pure.

The store refuses a place that is another job's, so a guess is never wrong, only in vain. It is made
while a full look has found far more room than is wanted: the numbers go round, and one comes again
when as many jobs have started as the limit allows at once. What jobs leave that end here may be
given away again. Where limits bind, every claim looks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from shunter.model.job_limits import MAX_PLACES, JobLimits
from shunter.model.lane_claim import LANES_AT_ONCE, LaneChoice, LanePlace, LaneState, rotated

KEPT_SECONDS = 0.25
"""How long lanes count as known. One that is new waits that long, where others have jobs enough."""

ROOM_KEPT_SECONDS = 5.0
"""How long claims go by the room that a look has found: what others start is not known here."""

PART_OF_ROOM = 2
"""The part of the room that is given away without a look is 1 / this."""


class PlaceGuess(Struct, frozen=True):
    """What a full look has found: lanes in order, how many jobs may start without another look.

    Places are read seldom: `counted_at` is when that was, and `looked_at` when lanes were seen.
    `is_known` says that it was given away before: what is spare since then is counted elsewhere.
    `next_at` and `revisions` are those of the buckets.
    """

    limits: JobLimits
    lanes: Sequence[str]
    looked_at: float
    spare: int
    next_at: Mapping[str, float] = {}
    revisions: Mapping[str, int] = {}
    counted_at: float = 0.0
    is_known: bool = False

    @property
    def state(self) -> LaneState:
        """As if no place was taken."""
        return LaneState(self.limits, {}, set(), dict(self.next_at))

    def knows_lanes(self, now: float) -> bool:
        """True if no lane that is not named can have had jobs for long."""
        return 0 <= now - self.looked_at < KEPT_SECONDS

    def with_lanes(
        self, lanes: Iterable[str], state: LaneState, revisions: Mapping[str, int], *, now: float
    ) -> PlaceGuess:
        """Return the same for lanes that are seen now, with what `state` says of their buckets."""
        return replace(
            self,
            lanes=sorted(lanes),
            looked_at=now,
            next_at={**self.next_at, **state.next_at},
            revisions={**self.revisions, **revisions},
        )

    def lanes_after(self, after: str | None) -> list[str]:
        """The lanes in the order in which it is their turn."""
        return rotated(self.lanes, after)

    def less(self, started: int, taken: Mapping[str, float]) -> PlaceGuess:
        """Return what is left after jobs have started and tokens were taken.

        Each bucket is one revision further.
        """
        spare = self.spare - started
        if not taken:
            return replace(self, spare=spare)
        revisions = {it: self.revisions.get(it, 0) + 1 for it in taken}
        return replace(
            self,
            spare=spare,
            next_at={**self.next_at, **taken},
            revisions={**self.revisions, **revisions},
        )


class LaneLook(Struct, frozen=True):
    """What a dispatcher learns from a claim beside the jobs: where to begin the next time.

    `due` is when a token comes for a job that waits. `is_more` says that a next claim may bring
    more at once: there are jobs to be sorted, or others were faster. `is_held_back` says that jobs
    may wait for a place or a token, and `guess` what may be started without another look.
    Where `is_empty`, nothing waits, and places were not looked at: what was known of them holds.
    """

    after: str | None = None
    due: float | None = None
    is_more: bool = False
    is_held_back: bool = True
    guess: PlaceGuess | None = None
    is_empty: bool = False


def look_after(
    choice: LaneChoice,
    state: LaneState,
    lanes: Sequence[str],
    last: str | None,
    *,
    now: float,
    before: str | None,
) -> LaneLook:
    """Say where the next claim begins, and when. `last` is the lane of the job started last.

    Where turns are fair, behind that one, or as `before`; and where a look was too short for all
    lanes, behind the last that it saw.
    """
    is_cut = len(lanes) >= LANES_AT_ONCE
    after = before if state.limits.fair else None
    if state.limits.fair and last is not None:
        after = last
    elif is_cut:
        after = lanes[-1]
    dues = [at for at in (choice.due, state.due(lanes, now=now)) if at is not None]
    return LaneLook(after, min(dues, default=None), choice.is_more)


def seen_by_look(
    look: LaneLook,
    state: LaneState,
    lanes: Sequence[str],
    choice: LaneChoice,
    *,
    fronts: int,
    started: int,
    now: float,
    revisions: Mapping[str, int] | None = None,
) -> LaneLook:
    """Complete what is learnt from a full look that saw so many `fronts` in these lanes."""
    is_lost = started < len(choice.starts)
    is_all = started == fronts and all(state.is_open(lane, now=now) for lane in lanes)
    return replace(
        look,
        is_more=look.is_more or is_lost,
        is_held_back=choice.is_more or not is_all or len(lanes) >= LANES_AT_ONCE,
        guess=None if is_lost else _guess_after(state, lanes, choice, now, revisions or {}),
    )


def seen_by_guess(
    look: LaneLook,
    guess: PlaceGuess,
    choice: LaneChoice,
    *,
    started: int,
    wanted: int,
    is_rest: bool,
) -> LaneLook:
    """Complete what is learnt from a claim by a guess; `is_rest` says that more jobs wait."""
    if started < len(choice.starts) or (started < wanted and is_rest):
        return replace(look, is_more=True)
    left = guess.less(started, choice.buckets)
    return replace(look, is_held_back=started == wanted, guess=left)


def _guess_after(
    state: LaneState,
    lanes: Sequence[str],
    choice: LaneChoice,
    now: float,
    revisions: Mapping[str, int],
) -> PlaceGuess | None:
    """Return what may be started after what was chosen; None if nothing."""
    if len(lanes) >= LANES_AT_ONCE:
        return None
    rooms = [_room(state.limits.total, state.totals), _room(state.limits.per_key, ())]
    rooms += [_room(state.limits.per_key, state.held.get(lane, ())) for lane in lanes]
    spare = min(rooms) // PART_OF_ROOM
    seen = PlaceGuess(
        state.limits, sorted(lanes), now, spare, state.next_at, revisions, counted_at=now
    )
    guess = seen.less(len(choice.starts), choice.buckets)
    return guess if guess.spare > 0 else None


def _room(limit: int | None, held: Collection[int]) -> int:
    """How many of these places are free; none where some are left of a limit that was higher."""
    if limit is None:
        return MAX_PLACES
    return limit - len(held) if max(held, default=0) < limit else 0


def places_at(limits: JobLimits, numbers: Iterable[int]) -> list[LanePlace]:
    """Return the places at numbers that go on and on, while those of the limits go round."""
    per_key, total = limits.per_key, limits.total
    return [
        LanePlace(
            None if per_key is None else number % per_key, None if total is None else number % total
        )
        for number in numbers
    ]


class PlaceGuesses:
    """The guesses that one dispatcher may make, by type, and the numbers that come next.

    `first` is where its numbers begin: apart from those of other dispatchers.
    """

    def __init__(self, first: int = 0) -> None:
        self._start = first
        self._by_type: dict[str, PlaceGuess] = {}
        self._spare: dict[str, int] = {}
        self._most: dict[str, int] = {}  # what was spare after the full look
        self._lanes: dict[str, set[str]] = {}
        self._first: dict[str, int] = {}

    def first(self, job_type: str) -> int:
        """Return where to begin with numbers: behind those given last."""
        return self._first.get(job_type, self._start)

    def of(self, job_type: str, limits: JobLimits, *, wanted: int, now: float) -> PlaceGuess | None:
        """Return what to go by, or None where a full look is due."""
        guess = self._by_type.get(job_type)
        if guess is None or not self.is_roomy(job_type, limits, wanted=wanted):
            return None
        if not 0 <= now - guess.counted_at < ROOM_KEPT_SECONDS:
            return None
        lanes = self._lanes[job_type]
        names = guess.lanes if len(lanes) == len(guess.lanes) else sorted(lanes)
        return replace(guess, lanes=names, is_known=True)

    def is_roomy(self, job_type: str, limits: JobLimits, *, wanted: int) -> bool:
        """True if the last look has found far more room than is wanted, however long ago."""
        guess = self._by_type.get(job_type)
        return guess is not None and guess.limits == limits and self._spare[job_type] >= wanted

    def queued(self, job_type: str, lanes: Set[str]) -> None:
        """Note that jobs have come into these lanes: claims look there, too."""
        if (known := self._lanes.get(job_type)) is not None:
            known |= lanes
            if len(known) >= LANES_AT_ONCE:
                self.forget(job_type)

    def take(
        self, job_type: str, limits: JobLimits, lane: str, *, running: int
    ) -> LanePlace | None:
        """Give places to a job that is about to be stored; None if it has to wait for a claim.

        However long ago the look was: a guess in vain costs no look, and is the last one. Tokens
        are taken by claims alone. A lane that the look has not seen is taken to have room if not
        even all jobs that are `running` would fill half of it.
        """
        guess = self._by_type.get(job_type)
        if guess is None or limits.rate is not None or self._spare[job_type] < 1:
            return None
        if guess.limits is not limits and guess.limits != limits:
            return None
        per_key = limits.per_key
        if per_key is not None and per_key < 2 * running and lane not in guess.lanes:
            return None
        self._spare[job_type] -= 1
        number = self.first(job_type)
        self._first[job_type] = number + 1
        [place] = places_at(limits, (number,))
        return place

    def left(self, job_type: str) -> None:
        """Note that a job that was started here has left its places."""
        if job_type in self._by_type:
            self._spare[job_type] = min(self._spare[job_type] + 1, self._most[job_type])

    def saw(self, job_type: str, guess: PlaceGuess | None, *, started: int) -> None:
        """Note what a claim has left, and how many numbers it has used."""
        self._first[job_type] = self.first(job_type) + started
        if guess is None or (guess.is_known and job_type not in self._by_type):
            self.forget(job_type)
            return
        if guess.is_known:
            self._spare[job_type] -= started
        else:
            self._spare[job_type], self._most[job_type] = guess.spare, guess.spare + started
        self._by_type[job_type] = guess
        self._lanes[job_type] = set(guess.lanes)

    def forget(self, job_type: str) -> None:
        """Look the next time: a guess was in vain."""
        self._by_type.pop(job_type, None)
        self._lanes.pop(job_type, None)
