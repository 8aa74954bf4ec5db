"""What sources of lines have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from shunter.flow.sources.file_source import FileSource
from shunter.flow.sources.files import ByteRange, SourceFile, byte_ranges
from shunter.flow.sources.line_files import LineFiles
from shunter.flow.sources.port import BadInput, bad_input
from shunter.flow.sources.splits import packed, ranges_of


class LineSource(FileSource[ByteRange]):
    """Makes events of blocks of lines."""

    _files: LineFiles

    def open(self, position: Any | None) -> None:
        self._files = LineFiles(self._pieces(), position)

    def position(self) -> Any:
        return self._files.position

    def close(self) -> None:
        self._files.close()

    def _some(self, limit: int) -> list[Any] | None:
        before = self._files.offset
        lines = self._files.lines(limit)
        return self._events_of(lines, before) if lines else None

    @abstractmethod
    def _events_of(self, lines: list[bytes], offset: int) -> list[Any]:
        """Return the events of lines, of which the first begins at `offset` in its file."""

    def _begin_next(self) -> bool:
        return self._files.begin_next()

    def _bad(self, offset: int, index: int, line: bytes, error: Exception) -> BadInput:
        """Name the index-th line of those that begin at `offset`."""
        number = self._files.line_at(offset) + index
        return bad_input(f"{self._files.url}:{number}", error, line)

    def _cut(self, files: list[SourceFile], target: int, open_bytes: int) -> list[list[ByteRange]]:
        return packed(ranges_of(files, target), target, open_bytes)

    def _pieces_in(self, files: list[SourceFile]) -> list[ByteRange]:
        return byte_ranges(files, self._share)

    def _whole(self, url: str) -> ByteRange:
        return ByteRange(url)
