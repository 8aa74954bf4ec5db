"""A stage that aggregates, at work in one worker: the accumulators of each key and window.

Results come at the end of the stream, and those of a window when marks have passed its end. An
event is late where all its windows have been told already; it goes to who asks for such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

from shunter.flow.graph.aggregates import Aggregate, Aggregation
from shunter.flow.graph.instructions import END_OF_STREAM, WATERMARK, Instruction
from shunter.flow.graph.keys import as_key
from shunter.flow.graph.stages import Stage, StageKind, key_name
from shunter.flow.graph.times import WRITERS, Number, to_timestamp, writer_of
from shunter.flow.graph.windows import Marks
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.in_out import Needs
from shunter.flow.runtime.sender import Bad
from shunter.flow.runtime.states import KeyedStates

States = dict[Any, list[Any]]
"""By key, the state of each aggregate."""

NO_WINDOW = 0
"""Where everything lies that is in no window."""


_CODEC = EventCodec({})


class Aggregator:
    """All accumulators of one worker, by the start of their window and by key."""

    def __init__(self, stage: Stage, bad: Bad, stored: KeyedStates | None = None) -> None:
        self._what: Aggregation = stage.what
        self._bad, self._stored = bad, stored
        self._routes = {edge.number: edge.route for edge in stage.inputs}
        self._route = stage.inputs[0].route
        self._names = self._what.names(key_name(stage.inputs))
        self._aggregates = list(self._what.aggregates.values())
        self._adds = [each.add for each in self._aggregates]
        self._marks = Marks(marking(stage))
        self._closed: Number | None = None
        self._writer = "number"
        self._by_start: dict[Number, States] = {}
        self._late: list[Any] = []

    def expect_by(self, edge: int) -> None:
        """Take the keys of the next events as they are on this edge."""
        self._route = self._routes[edge]

    def process(self, events: list[Any]) -> tuple[list[Any], Needs | None]:
        take = self._take if self._what.window is None else self._take_in_windows
        for event, parts in self._parts(events):
            try:
                take(event, *parts)
            except Exception as error:
                self._bad(event, error)
        return [], lambda: [0] * len(events)

    def instruct(self, instruction: Instruction) -> list[Any]:
        if instruction.name == END_OF_STREAM:
            return self._told(sorted(self._starts()))
        if instruction.name != WATERMARK or self._what.window is None:
            return []
        self._marks.heard(instruction.origin, instruction.data)
        self._closed = mark = self._marks.lowest
        if mark is None:
            return []
        return self._told(
            sorted(start for start in self._starts() if self._what.window.end(start) <= mark)
        )

    def late(self) -> list[Any]:
        """Take the events that came too late since this was last asked."""
        late, self._late = self._late, []
        return late

    def snapshot(self) -> Any:
        saved = [
            [start, key, [saved_accumulator(each, state) for each, state in self._paired(states)]]
            for start, groups in self._by_start.items()
            for key, states in groups.items()
        ]
        if self._stored is not None:
            for start, key, states in saved:
                self._stored.put(key, states, start)
            saved = []
        return {"marks": self._marks.snapshot(), "writer": self._writer, "groups": saved}

    def restore(self, saved: Any) -> None:
        self._marks.restore(saved["marks"])
        self._closed, self._writer = self._marks.lowest, saved["writer"]
        for start, key, states in saved["groups"]:
            self._by_start.setdefault(start, {})[as_key(key)] = self._loaded(states)

    # ---- taking events

    def _parts(self, events: list[Any]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Return each event with its key, the time where that is wanted, and its values."""
        try:
            yield from zip(events, self._columns(events), strict=True)
            return
        except _BadPart:
            pass
        for event in events:
            try:
                [parts] = self._columns([event])
            except _BadPart as bad:
                self._bad(event, bad.error)
            else:
                yield event, parts

    def _columns(self, events: list[Any]) -> list[tuple[Any, ...]]:
        window = self._what.window
        try:
            keys = self._route.keys_of(events)
            times = [] if window is None else [window.time.many(events)]
            values: list[Iterable[Any]] = [
                repeat(None, len(events)) if each.getter is None else each.getter.many(events)
                for each in self._aggregates
            ]
        except Exception as error:
            raise _BadPart(error) from error
        return list(zip(keys, *times, *values, strict=True))

    def _take(self, _: Any, key: Any, *values: Any) -> None:
        self._add(NO_WINDOW, key, values)

    def _take_in_windows(self, event: Any, key: Any, time: Any, *values: Any) -> None:
        window, closed = self._what.window, self._closed
        assert window is not None
        starts = window.starts(to_timestamp(time))
        if closed is not None:
            starts = [start for start in starts if window.end(start) > closed]
        if not starts:
            self._late.append(event)
        self._writer = writer_of(time)
        for start in starts:
            self._add(start, key, values)

    def _add(self, start: Number, key: Any, values: tuple[Any, ...]) -> None:
        groups = self._by_start.setdefault(start, {})
        states = groups.get(key)
        if states is None:
            states = self._stored_or_new(start, key)
        groups[key] = [
            add(state, value) for add, state, value in zip(self._adds, states, values, strict=True)
        ]

    def _stored_or_new(self, start: Number, key: Any) -> list[Any]:
        if self._stored is not None:
            try:
                found = self._by_start[start][key] = self._loaded(self._stored.load(key, start))
            except KeyError:
                pass
            else:
                return found
        return [each.start() for each in self._aggregates]

    def _loaded(self, states: Iterable[Any]) -> list[Any]:
        return [loaded_accumulator(each, state) for each, state in self._paired(states)]

    # ---- telling results

    def _starts(self) -> set[Number]:
        """Return where the windows begin that are open."""
        return {*self._by_start, *(() if self._stored is None else self._stored.parts())}

    def _told(self, starts: Iterable[Number]) -> list[dict[str, Any]]:
        return [result for start in starts for result in self._results(start)]

    def _results(self, start: Number) -> Iterator[dict[str, Any]]:
        groups = self._by_start.pop(start, {})
        if self._stored is not None:
            stored = self._stored.items(start)
            groups |= {key: self._loaded(saved) for key, saved in stored if key not in groups}
            self._stored.drop(start)
        for key, states in groups.items():
            results = (each.result(state) for each, state in self._paired(states))
            yield dict(zip(self._names, (key, *self._times(start), *results), strict=True))

    def _times(self, start: Number) -> tuple[Any, ...]:
        if self._what.window is None:
            return ()
        written: Callable[[Number], Any] = WRITERS[self._writer]
        return written(start), written(self._what.window.end(start))

    def _paired(self, states: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        return zip(self._aggregates, states, strict=True)


class _BadPart(Exception):
    """A key, time or value of an event can't be had."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def saved_accumulator(aggregate: Aggregate, state: Any) -> Any:
    """Return a state as a checkpoint can keep it."""
    return list(_CODEC.encode([aggregate.saved(state)]))


def loaded_accumulator(aggregate: Aggregate, saved: Any) -> Any:
    return aggregate.loaded(_CODEC.decode(*saved)[0])


def joined_snapshots(snapshots: Iterable[Any]) -> Any:
    """Make one of what several workers have kept whose keys one worker has now."""
    found = list(snapshots)
    writers = [saved["writer"] for saved in found if saved["writer"] != "number"]
    return {
        "marks": joined_marks(saved["marks"] for saved in found),
        "writer": writers[0] if writers else "number",
        "groups": [group for saved in found for group in saved["groups"]],
    }


def joined_marks(snapshots: Iterable[Any]) -> Any:
    """Make one of the marks of several workers.

    They were all told the same; where one was not, time has come no further than there.
    """
    marks: dict[str, Any] = {}
    for saved in snapshots:
        for origin, mark in saved:
            known = marks.get(origin)
            marks[origin] = mark if known is None or mark is None else min(known, mark)
    return [[origin, mark] for origin, mark in marks.items()]


def marking(stage: Stage) -> frozenset[str]:
    """Name the workers of sources before a stage that are known to send marks."""
    found: set[str] = set()
    seen, waiting = {stage}, [stage]
    while waiting:
        for edge in waiting.pop().inputs:
            before: Stage | None = edge.upstream
            if before is None or before in seen:
                continue
            seen.add(before)
            waiting.append(before)
            if before.kind is StageKind.SOURCE and getattr(before.what, "sends_watermarks", False):
                found |= {f"{before.name}.{index}" for index in range(before.workers or 1)}
    return frozenset(found)
