"""How a worker's outputs get to the workers behind an edge: routes, numbers, and what is taken.

Every output has a number, given when it is made. An outbox may take any number of what it is
offered; the rest is offered again. By key, a batch is put in the order of its receivers first, so
that each gets one run of numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from shunter.flow.graph.instructions import Instruction
from shunter.flow.graph.keys import KeyPartitioner
from shunter.flow.graph.routes import Route, RouteKind
from shunter.flow.runtime.in_out import InOutBuffer, Needs

Bad = Callable[[Any, Exception], None]
"""Called with an event that a user's function failed at; raises where that stops the flow."""


class StageOutbox(Protocol):
    """One receiver, from its sender's side."""

    def room(self, sender: str) -> int:
        """Say how many events would be taken now."""

    def enqueue(self, sender: str, first: int, events: Sequence[Any]) -> int:
        """Offer events that are numbered from `first` on; return how many it took."""

    def instruct(self, sender: str, number: int, instruction: Instruction) -> int:
        """Offer an instruction; return 1 where it was taken, else 0."""


class _Run:
    """Outputs with rising numbers that are not taken yet.

    `receiver` is set where they are for one only, and `size` is how many they were.
    """

    __slots__ = ("events", "first", "instruction", "receiver", "size")

    def __init__(
        self,
        first: int,
        events: list[Any],
        *,
        receiver: int | None = None,
        instruction: Instruction | None = None,
    ) -> None:
        self.first, self.events = first, events
        self.receiver, self.instruction = receiver, instruction
        self.size = len(events)

    @property
    def offer(self) -> tuple[int, list[Any]]:
        return self.first, self.events

    def advance(self, taken: int) -> None:
        self.first += taken
        self.events = self.events[taken:] if taken < len(self.events) else []


class Sender:
    """One edge of one worker. `next_number` is what a checkpoint keeps of it.

    `partitioner` says which of so many receivers has a key.
    """

    def __init__(
        self,
        sender: str,
        route: Route,
        outboxes: Sequence[StageOutbox],
        *,
        partitioner: type[KeyPartitioner] = KeyPartitioner,
    ) -> None:
        self._sender, self._route = sender, route
        self._outboxes = outboxes
        self._spread = partitioner(len(outboxes))
        self._runs: deque[_Run] = deque()
        self._in_out = InOutBuffer()
        self._way = _WAYS[route.kind] if len(outboxes) > 1 else Sender._to_any
        self.next_number = 1
        self.waiting = 0

    def put(
        self, events: list[Any], *, inputs: int, needs: Needs | None = None, bad: Bad | None = None
    ) -> None:
        """Take outputs on, and remember of how many inputs they are made."""
        if self._route.kind is RouteKind.BY_KEY:
            count = self._put_by_key(events, bad)
            self._in_out.record(inputs, count, lambda: [count] * inputs)
        else:
            count = len(events)
            if count:
                self._append(events)
            self._in_out.record(inputs, count, needs)

    def put_instruction(self, instruction: Instruction) -> None:
        self._runs.append(_Run(self.next_number, [], instruction=instruction))
        self._in_out.record(0, 1)
        self.next_number += 1
        self.waiting += 1

    def deliver(self) -> int:
        """Offer what waits; return how many inputs may be acknowledged for what was taken."""
        delivered = 0
        while self._runs:
            taken = self._deliver_head()
            delivered += taken
            if not taken:
                break
        self.waiting -= delivered
        return self._in_out.delivered(delivered)

    def _deliver_head(self) -> int:
        """Offer what is first; return how many of it were taken."""
        head = self._runs[0]
        if head.instruction is None:
            return self._way(self)
        if not self._instruct_all(head.first, head.instruction):
            return 0
        self._runs.popleft()
        return 1

    def _instruct_all(self, number: int, instruction: Instruction) -> bool:
        """Offer an instruction to every outbox, also to those that took it before."""
        boxes = self._outboxes
        taken = [box.instruct(self._sender, number, instruction) for box in boxes]
        return all(taken)

    # ---- the ways of events

    def _to_any(self) -> int:
        """To the one receiver, or to the one with most room."""
        run = self._runs[0]
        boxes = self._outboxes
        box = boxes[0] if len(boxes) == 1 else max(boxes, key=lambda box: box.room(self._sender))
        return self._advance(run, box.enqueue(self._sender, *run.offer))

    def _to_all(self) -> int:
        """To every receiver; those that have taken more drop what comes again."""
        run = self._runs[0]
        boxes = self._outboxes
        return self._advance(run, min([box.enqueue(self._sender, *run.offer) for box in boxes]))

    def _by_key(self) -> int:
        """To each receiver its own; one that is full does not keep the others waiting."""
        full: set[int] = set()
        for run in self._runs:
            if run.receiver is None:
                break
            if run.events and run.receiver not in full:
                run.advance(self._outboxes[run.receiver].enqueue(self._sender, *run.offer))
                if run.events:
                    full.add(run.receiver)
        delivered = 0
        while self._runs and self._runs[0].receiver is not None and not self._runs[0].events:
            delivered += self._runs.popleft().size
        return delivered

    def _advance(self, run: _Run, taken: int) -> int:
        run.advance(taken)
        if not run.events:
            self._runs.popleft()
        return taken

    # ---- taking outputs on

    def _put_by_key(self, events: list[Any], bad: Bad | None) -> int:
        """Sort a batch by receivers, each one's in the order they came."""
        parts: list[list[Any]] = [[] for _ in self._outboxes]
        appends = [part.append for part in parts]
        for index, event in zip(self._receivers(events, bad), events, strict=True):
            if index is not None:
                appends[index](event)
        for receiver, part in enumerate(parts):
            if part:
                self._append(part, receiver)
        return sum(map(len, parts))

    def _receivers(self, events: list[Any], bad: Bad | None) -> Sequence[int | None]:
        """For each event the index of its receiver; None where its key can't be had."""
        key = self._route.key
        assert key is not None
        try:
            return self._spread.indexes(self._route.keys_of(events))
        except Exception:
            if bad is None:
                raise
        found: list[int | None] = []
        for event in events:
            try:
                found.append(self._spread.index(key(event)))
            except Exception as error:
                bad(event, error)
                found.append(None)
        return found

    def _append(self, events: list[Any], receiver: int | None = None) -> None:
        self._runs.append(_Run(self.next_number, events, receiver=receiver))
        self.next_number += len(events)
        self.waiting += len(events)


_WAYS = {
    RouteKind.LOCAL: Sender._to_any,
    RouteKind.BALANCED: Sender._to_any,
    RouteKind.BY_KEY: Sender._by_key,
    RouteKind.TO_ALL: Sender._to_all,
}
