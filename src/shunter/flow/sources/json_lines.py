"""Events from files with a JSON value on each line."""

from __future__ import annotations

from typing import Any

import msgspec

from shunter.flow.sources.files import Where
from shunter.flow.sources.line_source import LineSource
from shunter.flow.sources.port import WithBadInput

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class JsonLines(LineSource):
    """The lines of a file, of a folder's `*.jsonl`, of a pattern's files, or of several of these.

    They become plain values, or with `type` objects of a dataclass or msgspec Struct. A line that
    is no JSON, or does not fit the type, is a bad event that names file and line. Several workers
    share files, or stretches of them where files are too few; then these must not change
    meanwhile. With `follow` it never ends: new files are read as they arrive in the folder.
    """

    suffix = ".jsonl"

    def __init__(self, where: Where, *, type: Any = Any, follow: bool = False) -> None:  # noqa: A002
        super().__init__(where, follow=follow)
        self.event_type = type
        self._decoder = msgspec.json.Decoder(type)

    def _events_of(self, lines: list[bytes], offset: int) -> list[Any]:
        try:
            events = self._decoder.decode_lines(b"".join(lines))
        except _UNREADABLE:
            return self._one_by_one(lines, offset)
        # A value may not go over several lines, nor several stand on one.
        is_one_each = len(events) == len(lines) - sum(map(bytes.isspace, lines))
        return events if is_one_each else self._one_by_one(lines, offset)

    def _one_by_one(self, lines: list[bytes], offset: int) -> list[Any]:
        events = WithBadInput()
        for index, line in enumerate(lines):
            try:
                if not line.isspace():
                    events.append(self._decoder.decode(line))
            except _UNREADABLE as error:
                events.append(self._bad(offset, index, line, error))
        return events
