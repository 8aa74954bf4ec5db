"""Events from files with a JSON value on each line."""

from __future__ import annotations

from typing import Any

import msgspec

from shunter.flow.sources.files import SourcePart, Where, byte_ranges, found_files, line_number
from shunter.flow.sources.line_files import LineFiles

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class JsonLines:
    """The lines of a file, of a folder's `*.jsonl`, of a pattern's files, or of several of these.

    They become plain values, or with `type` objects of a dataclass or msgspec Struct. At a line
    that is no JSON, or does not fit the type, a ValueError names file and line; reading on
    continues behind it. Several workers share files, or stretches of them where files are too
    few; then these must not change meanwhile.
    """

    def __init__(self, where: Where, *, type: Any = Any) -> None:  # noqa: A002
        self._where, self.event_type = where, type
        self._share = SourcePart()
        self._decoder = msgspec.json.Decoder(type)
        self._files: LineFiles

    def part(self, index: int, count: int) -> JsonLines:
        part = JsonLines(self._where, type=self.event_type)
        part._share = SourcePart(index, count)
        return part

    def check(self) -> None:
        found_files(self._where, ".jsonl")

    def open(self, position: Any | None) -> None:
        files = found_files(self._where, ".jsonl")
        self._files = LineFiles(self._where, byte_ranges(files, self._share), position)

    def read(self, limit: int) -> list[Any] | None:
        files = self._files
        while True:
            before = files.offset
            if lines := files.lines(limit):
                if events := self._decoded(lines, before):
                    return events
            elif not files.begin_next():
                return None

    def position(self) -> Any:
        return self._files.position

    def close(self) -> None:
        self._files.close()

    def _decoded(self, lines: list[bytes], offset: int) -> list[Any]:
        try:
            events = self._decoder.decode_lines(b"".join(lines))
        except _UNREADABLE:
            return self._decoded_one_by_one(lines, offset)
        # A value may not go over several lines, nor several stand on one.
        is_one_each = len(events) == len(lines) - sum(map(bytes.isspace, lines))
        return events if is_one_each else self._decoded_one_by_one(lines, offset)

    def _decoded_one_by_one(self, lines: list[bytes], offset: int) -> list[Any]:
        """Return what is before the first bad line, and come back to it with the next reading."""
        events = []
        for line in lines:
            try:
                if not line.isspace():
                    events.append(self._decoder.decode(line))
            except _UNREADABLE as error:
                if events:
                    self._files.go_to(offset)
                    return events
                self._files.go_to(offset + len(line))
                path = self._files.path
                raise ValueError(f"{path}:{line_number(path, offset)}: {error}") from None
            offset += len(line)
        return events
