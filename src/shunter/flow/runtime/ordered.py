"""A class that gets its key's events by event time: they are held here until it is their turn.

Held is everything until the stream ends, a source sends an instruction, or watermarks have passed
an event by the lateness asked for. What is let go is sorted by time, and where times are equal by
the events themselves, so that arrival has no say in it. An event behind what watermarks have let
go is late: it goes to who asks for such, else it is bad. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from shunter.flow.graph.event_order import EventOrder
from shunter.flow.graph.instructions import WATERMARK, Instruction
from shunter.flow.graph.stages import Stage
from shunter.flow.graph.times import Number
from shunter.flow.graph.windows import Marks
from shunter.flow.runtime.aggregator import joined_marks, marking
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.in_out import Needs
from shunter.flow.runtime.sender import Bad

AT_ONCE = 2_048
"""How many held events are worked on at once."""

Held = tuple[Number, int, Any]
"""The time of an event, the edge by which it came, and the event."""

Types = Callable[[], Mapping[str, type]]
"""Returns the flow's types of events; asked for only where events go into a checkpoint."""

_TIME: Callable[[Held], Number] = itemgetter(0)
_EDGE: Callable[[Held], int] = itemgetter(1)

_canonical = msgspec.msgpack.Encoder(order="deterministic").encode
_plain = msgspec.msgpack.Encoder().encode


class KeyedOperator(Protocol):
    """What does the work of a keyed stage once events are in order."""

    def expect_by(self, edge: int) -> None: ...
    def process(self, events: list[Any]) -> tuple[list[Any], Needs | None]: ...
    def instruct(self, instruction: Instruction) -> list[Any] | Iterator[list[Any]]: ...
    def snapshot(self) -> Any: ...
    def restore(self, saved: Any) -> None: ...


class Ordered:
    """Holds the events of one worker before `inner` gets them in their order."""

    def __init__(self, stage: Stage, bad: Bad, inner: KeyedOperator, types: Types) -> None:
        self._inner, self._bad, self._types = inner, bad, types
        self._orders = {edge.number: _order(edge.route.order) for edge in stage.inputs}
        self._edge = stage.inputs[0].number
        self._has_ways = len({id(edge.route.key) for edge in stage.inputs}) > 1
        self._lateness = max(order.lateness or 0 for order in self._orders.values())
        self._tells_late = any(edge.is_late for edge in stage.outputs)
        self._marks = Marks(marking(stage))
        self._bound: Number | None = None
        self._held: list[Held] = []
        self._due: list[Held] | None = None
        self._late: list[Any] = []

    def expect_by(self, edge: int) -> None:
        """Take the times of the next events as they are on this edge."""
        self._edge = edge

    def process(self, events: list[Any]) -> tuple[list[Any], Needs | None]:
        for moment, event in self._timed(events):
            if self._bound is not None and moment < self._bound:
                self._came_late(moment, event)
            else:
                self._held.append((moment, self._edge, event))
        return [], lambda: [0] * len(events)

    def released(self, instruction: Instruction) -> list[Any] | None:
        """Return what becomes of the next held events that come before an instruction.

        None is for no more of them. Called again and again, it holds little at a time.
        """
        if self._due is None:
            self._due = self._taken_out(instruction)
        if not self._due:
            self._due = None
            return None
        some = self._due[-AT_ONCE:][::-1]
        del self._due[-AT_ONCE:]
        return [
            output for events in self._by_ways(some) for output in self._inner.process(events)[0]
        ]

    def instruct(self, instruction: Instruction) -> list[Any]:
        outputs: list[Any] = []
        while (some := self.released(instruction)) is not None:
            outputs += some
        made = self._inner.instruct(self.passed_on(instruction))
        return outputs + (made if isinstance(made, list) else list(chain.from_iterable(made)))

    def passed_on(self, instruction: Instruction) -> Instruction:
        """Return an instruction as it is for who comes behind: time has come less far there."""
        if instruction.name != WATERMARK or instruction.data is None or not self._lateness:
            return instruction
        return replace(instruction, data=instruction.data - self._lateness)

    def late(self) -> list[Any]:
        """Take the events that came too late since this was last asked."""
        late, self._late = self._late, []
        return late

    def snapshot(self) -> Any:
        by_edge: dict[int, list[Any]] = {}
        for _, edge, event in self._held:
            by_edge.setdefault(edge, []).append(event)
        codec = EventCodec(self._types() if by_edge else {})
        return {
            "marks": self._marks.snapshot(),
            "held": [[edge, *codec.encode(events)] for edge, events in by_edge.items()],
            "inner": self._inner.snapshot(),
        }

    def restore(self, saved: Any) -> None:
        self._marks.restore(saved["marks"])
        self._inner.restore(saved["inner"])
        self._bound = self._passed()
        codec = EventCodec(self._types() if saved["held"] else {})
        for edge, kind, body in saved["held"]:
            events, order = codec.decode(kind, body), self._orders[edge]
            self._held += [(order.moment(event), edge, event) for event in events]

    # ---- what comes in

    def _timed(self, events: list[Any]) -> list[tuple[Number, Any]]:
        order = self._orders[self._edge]
        try:
            return list(zip(order.moments(events), events, strict=True))
        except Exception:
            timed: list[tuple[Number, Any]] = []
        for event in events:
            try:
                timed.append((order.moment(event), event))
            except Exception as error:
                self._bad(event, error)
        return timed

    def _came_late(self, moment: Number, event: Any) -> None:
        if self._tells_late:
            self._late.append(event)
            return
        fault = (
            f"it is late: its time is {moment}, and events before {self._bound} have gone on; let "
            "lateness be longer, or take such events with late()"
        )
        self._bad(event, ValueError(fault))

    # ---- what goes on

    def _taken_out(self, instruction: Instruction) -> list[Held]:
        """Take what comes before an instruction, the first at the end."""
        held = sorted(self._held, key=_TIME)
        at = len(held)
        if instruction.name == WATERMARK:
            self._marks.heard(instruction.origin, instruction.data)
            self._bound = self._passed()
            at = 0 if self._bound is None else bisect_left(held, self._bound, key=_TIME)
        self._held = held[at:]
        return self._without_ties(held[:at])[::-1]

    def _passed(self) -> Number | None:
        """Return the time before which events go on."""
        lowest = self._marks.lowest
        return None if lowest is None else lowest - self._lateness

    def _without_ties(self, held: list[Held]) -> list[Held]:
        """Put events of equal times into the order of what they are."""
        moments = list(map(_TIME, held))
        if len(set(moments)) == len(moments):
            return held
        found: list[Held] = []
        for _, group in groupby(held, key=_TIME):
            [first, *others] = group
            found += self._sorted([first, *others]) if others else (first,)
        return found

    def _sorted(self, equals: list[Held]) -> list[Held]:
        written: list[tuple[str, bytes, Held]] = []
        for each in equals:
            try:
                written.append((type(each[2]).__qualname__, _written(each[2]), each))
            except Exception as error:
                self._bad(each[2], error)
        return [each for _, _, each in sorted(written, key=itemgetter(0, 1))]

    def _by_ways(self, held: list[Held]) -> Iterator[list[Any]]:
        """Return events in runs of one edge, and tell `inner` by which they have come."""
        if not self._has_ways:
            yield [event for _, _, event in held]
            return
        for edge, group in groupby(held, key=_EDGE):
            self._inner.expect_by(edge)
            yield [event for _, _, event in group]


def joined_held(
    snapshots: Iterable[Any],
    stage: Stage,
    types: Mapping[str, type],
    is_mine: Callable[[Any], bool],
) -> Any:
    """Make one of what several workers have kept, with the events of one's own keys alone."""
    codec, routes = EventCodec(types), {edge.number: edge.route for edge in stage.inputs}
    held: list[Any] = []
    found = list(snapshots)
    for saved in found:
        for edge, kind, body in saved["held"]:
            key = routes[edge].key
            assert key is not None, "events are held by key"
            mine = [event for event in codec.decode(kind, body) if is_mine(key(event))]
            if mine:
                held.append([edge, *codec.encode(mine)])
    return {"marks": joined_marks(each["marks"] for each in found), "held": held, "inner": None}


def _order(order: EventOrder | None) -> EventOrder:
    assert order is not None, "the flow was checked"
    return order


def _written(event: Any) -> bytes:
    """Write an event down: the same bytes in every process, but for sets of mixed types."""
    try:
        return _canonical(event)
    except TypeError:
        return _plain(event)
