"""A source that also tells how far time has come."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.fields import Field, Getter, is_field
from shunter.flow.graph.instructions import WATERMARK, Instruction
from shunter.flow.graph.source_line import users_line
from shunter.flow.graph.times import Number, Seconds, seconds_of, to_timestamp
from shunter.flow.sources.port import Source
from shunter.flow.sources.source_argument import as_source


class Watermarked:
    """A source that tells how far time has come: as far as its latest event, less `lateness`.

    It says so after every `every` events. Its first instruction has no time, so that windows
    know of it. An event whose time can't be had moves no mark.
    """

    sends_watermarks = True

    def __init__(
        self, source: Any, *, time: Field, lateness: Seconds = 0, every: int = 1000
    ) -> None:
        if not is_field(time) or not isinstance(every, int) or every < 1:
            raise FlowError(
                f"Watermarked(time={time!r}, every={every!r}): let time name a field or be a "
                "function of the event, and every be a number of events, 1 or more",
                place=str(users_line()),
            )
        self.source: Source = as_source(source)
        self._time, self._every = Getter(time), every
        self._lateness = 0 if lateness == 0 else seconds_of(lateness, "lateness")
        self._latest: Number | None = None
        self._since, self._is_begun = 0, False

    @property
    def part(self) -> Callable[[int, int], Watermarked]:
        """Parts have marks of their own; there is none where the source can't be split."""
        part = self.source.part  # type: ignore[attr-defined]
        return lambda index, count: self._around(part(index, count))

    @property
    def acknowledged(self) -> Callable[[Any], None]:
        """There is none where the source has none."""
        acknowledged = self.source.acknowledged  # type: ignore[attr-defined]
        return lambda position: acknowledged(position[0])

    @property
    def check(self) -> Callable[[], None]:
        """There is none where the source has none."""
        check: Callable[[], None] = self.source.check  # type: ignore[attr-defined]
        return check

    def open(self, position: Any | None) -> None:
        inner: Any = None
        self._latest, self._since, self._is_begun = None, 0, False
        if position is not None:
            inner, self._latest, self._since, self._is_begun = position
        self.source.open(inner)

    def read(self, limit: int) -> list[Any] | None:
        if not self._is_begun:
            self._is_begun = True
            return [Instruction(WATERMARK)]
        if self._since >= self._every:
            self._since = 0
            if self._latest is not None:
                return [Instruction(WATERMARK, self._latest - self._lateness)]
        events = self.source.read(min(limit, self._every - self._since))
        if events and type(events[0]) is not Instruction:
            self._since += len(events)
            self._see(events)
        return events

    def position(self) -> Any:
        return [self.source.position(), self._latest, self._since, self._is_begun]

    def close(self) -> None:
        self.source.close()

    def _around(self, source: Source) -> Watermarked:
        return Watermarked(
            source, time=self._time.name or self._time.function, lateness=self._lateness,
            every=self._every,
        )  # fmt: skip

    def _see(self, events: list[Any]) -> None:
        for event in events:
            try:
                moment = to_timestamp(self._time(event))
            except Exception:  # noqa: S112 - whoever needs the time says what is wrong with it
                continue
            if math.isfinite(moment) and (self._latest is None or moment > self._latest):
                self._latest = moment
