"""Where a worker's events arrive: one bounded queue for each sender, and no event twice.

Each sender numbers what it sends, upwards. What is not above the highest number seen of it is
counted as taken and not kept. Events take up room until they are acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from shunter.errors import FlowError
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.runtime.alignment import Alignment

LIMIT = 8_192
"""How many events of one sender there is room for, unless told otherwise."""


class _Lane:
    """What has come from one sender, in runs, each with its last number.

    `mark` is the highest number that came, `done` the highest that was taken from here, and
    `occupied` counts what is not acknowledged yet.
    """

    __slots__ = ("done", "mark", "occupied", "runs")

    def __init__(self) -> None:
        self.mark = 0
        self.done = 0
        self.occupied = 0
        self.runs: deque[tuple[int, list[Any] | Instruction]] = deque()


class EventInbox(Protocol):
    """Where a stage worker takes its events from: an `Inbox`, or rows of Spark's."""

    taken_from: str

    def take(self, limit: int, /) -> list[Any] | Instruction | None:
        """Return the next events, an instruction, or None if there is nothing just now."""

    def acknowledge(self, count: int, /) -> None:
        """Make room for as many events, of which all outputs were taken."""

    def snapshot(self) -> Any:
        """Return what `restore` needs, in another process."""

    def restore(self, saved: Any) -> None:
        """Become what a snapshot has kept."""


class Inbox:
    """`carriers` names the senders by which the instructions of an origin come."""

    def __init__(
        self,
        senders: Collection[str],
        *,
        limit: int = LIMIT,
        carriers: Callable[[str], Iterable[str]] | None = None,
    ) -> None:
        self._lanes = {sender: _Lane() for sender in senders}
        self._limit = limit
        self._alignment = Alignment(senders, carriers)
        self._turns = deque(self._lanes)
        self._taken: deque[tuple[_Lane, int]] = deque()
        self._has_ended = False
        self.taken_from = ""
        self.duplicates = 0

    @property
    def capacity(self) -> int:
        return self._limit * len(self._lanes)

    @property
    def occupied(self) -> int:
        return sum(lane.occupied for lane in self._lanes.values())

    # ---- for senders

    def room(self, sender: str) -> int:
        return self._limit - self._lane(sender).occupied

    def mark(self, sender: str) -> int:
        """The highest number that was taken of a sender's."""
        return self._lane(sender).mark

    def enqueue(self, sender: str, first: int, events: Sequence[Any]) -> int:
        """Take events that are numbered from `first` on; return how many, from the front."""
        lane = self._lane(sender)
        known = min(max(lane.mark + 1 - first, 0), len(events))
        fresh = min(len(events) - known, self._limit - lane.occupied)
        self.duplicates += known
        if fresh <= 0:
            return known
        lane.mark = first + known + fresh - 1
        lane.runs.append((lane.mark, list(events[known : known + fresh])))
        lane.occupied += fresh
        return known + fresh

    def instruct(self, sender: str, number: int, instruction: Instruction) -> int:
        """Take an instruction; return 1, or 0 where there is no room for it."""
        lane = self._lane(sender)
        if number <= lane.mark:
            self.duplicates += 1
            return 1
        if lane.occupied >= self._limit:
            return 0
        lane.mark = number
        lane.runs.append((number, instruction))
        lane.occupied += 1
        return 1

    # ---- for the worker

    def take(self, limit: int) -> list[Any] | Instruction | None:
        """Take events of one sender, or an instruction that is due; None where there are none.

        `acknowledge` gives back the room of events, and `taken_from` is who sent them.
        """
        for _ in range(len(self._turns)):
            sender = self._turns[0]
            lane = self._lanes[sender]
            while lane.runs and not self._alignment.is_held(sender):
                number, head = lane.runs[0]
                if isinstance(head, list):
                    self._turns.rotate(-1)
                    self.taken_from = sender
                    return self._events(lane, limit)
                lane.runs.popleft()
                lane.done = number
                lane.occupied -= 1
                self._alignment.arrived(sender, head)
                if (due := self._alignment.due()) is not None:
                    return due
            self._turns.rotate(-1)
        if (due := self._alignment.due()) is not None:
            return due
        if self._alignment.is_at_end and not self._has_ended:
            self._has_ended = True
            return Instruction(END_OF_STREAM)
        return None

    def acknowledge(self, events: int) -> None:
        """Give back the room of the oldest events that were taken."""
        while events:
            lane, count = self._taken[0]
            now = min(count, events)
            lane.occupied -= now
            events -= now
            if now == count:
                self._taken.popleft()
            else:
                self._taken[0] = lane, count - now

    def snapshot(self) -> Any:
        """What a checkpoint must know. It is taken at one, when nothing waits before it."""
        marks = {sender: lane.done for sender, lane in self._lanes.items()}
        return {"marks": marks, "alignment": self._alignment.snapshot()}

    def restore(self, saved: Any) -> None:
        for sender, mark in saved["marks"].items():
            lane = self._lane(sender)
            lane.mark = lane.done = mark
        self._alignment.restore(saved["alignment"])

    def _events(self, lane: _Lane, limit: int) -> list[Any]:
        """Take up to `limit` of a sender's events, and put small runs together."""
        run: list[Any] = []
        while len(run) < limit and lane.runs and isinstance(part := lane.runs[0][1], list):
            last, _ = lane.runs.popleft()
            missing = limit - len(run)
            if len(part) > missing:
                lane.runs.appendleft((last, part[missing:]))
                last -= len(part) - missing
                del part[missing:]
            run = run + part if run else part
            lane.done = last
        self._taken.append((lane, len(run)))
        return run

    def _lane(self, sender: str) -> _Lane:
        lane = self._lanes.get(sender)
        if lane is None:
            raise FlowError(
                f"events came from {sender!r}, which does not send here; expected were "
                f"{', '.join(map(repr, sorted(self._lanes))) or 'no senders'}; deploy the flow anew"
            )
        return lane
