"""Claims under limits in memory: which jobs of which lanes start, and on which places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from shunter.model.lane_claim import (
    LANES_AT_ONCE,
    LaneChoice,
    LanePlace,
    LaneState,
    WaitingJob,
    choose,
    depths,
    rotated,
)
from shunter.model.place_guess import LaneLook, look_after, seen_by_guess, seen_by_look
from shunter.store.port import Claim

Waiting = tuple[int, int, str]
"""Rank, seq and id of a job in its queue."""


class MemoryLaneClaim(Struct, frozen=True):
    """What a claim has chosen: the jobs, by their ids and in order, each with its places."""

    claim: Claim
    state: LaneState
    lanes: Sequence[str]
    fronts: int
    choice: LaneChoice
    places: dict[str, LanePlace]

    def look(self, started: Sequence[str | None], *, is_rest: bool) -> LaneLook:
        """Say what is learnt from it; `started` has the lanes of the jobs that it got."""
        request, choice, lanes = self.claim, self.choice, self.lanes
        last, count = (started[-1] if started else None), len(started)
        look = look_after(choice, self.state, lanes, last, now=request.now, before=request.after)
        if (guess := request.fresh_guess) is not None:
            return seen_by_guess(
                look, guess, choice, started=count, wanted=request.limit, is_rest=is_rest
            )
        return seen_by_look(
            look, self.state, lanes, choice, fronts=self.fronts, started=count, now=request.now
        )


def chosen(
    request: Claim,
    state: LaneState,
    by_lane: Mapping[str, Sequence[Waiting]],
    *,
    priority: Callable[[str], int],
    size: Callable[[str], int],
) -> MemoryLaneClaim:
    """Decide what a claim takes of what waits; with a guess, from the lanes that it names."""
    wanted = max(request.limit, 0)
    if (guess := request.fresh_guess) is not None:
        lanes = [lane for lane in guess.lanes_after(request.after) if lane in by_lane]
    else:
        lanes = rotated(sorted(by_lane), request.after)
    opened = [lane for lane in lanes if state.is_open(lane, now=request.now)][:LANES_AT_ONCE]
    deep = depths(len(opened), wanted, state.limits)[-1]
    seen = [(lane, turn) for lane in opened for turn in by_lane[lane][:deep]]
    fronts = [WaitingJob(lane, rank, seq, priority(it)) for lane, (rank, seq, it) in seen]
    names = {seq: job_id for _, (_, seq, job_id) in seen}
    choice = choose(state, fronts, wanted=wanted, now=request.now, deep=deep, first=request.first)
    sizes = accumulate((size(names[seq]) for seq in choice.starts), initial=0)
    pairs = zip(choice.starts.items(), sizes, strict=False)
    places = {names[seq]: held for (seq, held), before in pairs if before < request.most_bytes}
    return MemoryLaneClaim(request, state, lanes, len(fronts), choice, places)
