"""Sinks that do something with each event and keep nothing.

After a death they may get again what came after the last checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import msgspec

from shunter.shown_text import shown, shown_json


class Each:
    """Calls a function with each event."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def part(self, index: int, count: int) -> Each:
        return Each(self._function)

    def open(self, saved: None) -> None:
        return

    def write(self, events: Sequence[Any]) -> int:
        for event in events:
            self._function(event)
        return len(events)

    def checkpoint(self) -> None:
        return

    def close(self) -> None:
        return


class Print:
    """Writes each event as a line of JSON, and a text as it is, to the console or another file."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def part(self, index: int, count: int) -> Print:
        return Print(self._file)

    def open(self, saved: None) -> None:
        return

    def write(self, events: Sequence[Any]) -> int:
        is_seen = self._out.isatty()
        self._out.write("".join(f"{self._line(event, is_seen)}\n" for event in events))
        self._out.flush()
        return len(events)

    def checkpoint(self) -> None:
        return

    def close(self) -> None:
        return

    def _line(self, event: Any, is_seen: bool) -> str:
        """Write an event; where somebody sees it, what it holds must not steer the terminal."""
        if isinstance(event, str):
            return shown(event) if is_seen else event
        document = self._encoder.encode(event).decode()
        return shown_json(document) if is_seen else document

    @property
    def _out(self) -> TextIO:
        return self._file or sys.stdout
