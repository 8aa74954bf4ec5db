"""Files of lines, read one after the other as one stream with a position."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, BinaryIO

from shunter.errors import FlowError
from shunter.flow.sources.files import ByteRange, Where, check_same, digest

BUFFER_BYTES = 1 << 18


class LineFiles:
    """The position is the number of the file, the offset of the next line, and a digest."""

    def __init__(self, where: Where, stretches: Sequence[ByteRange], position: Any | None) -> None:
        self._stretches = stretches
        self._index = -1
        self._offset = 0
        self._digest = digest([])
        self.file: BinaryIO | None = None
        if position is not None:
            index, offset, expected = position
            check_same(stretches, index, expected, where)
            if index >= 0:
                self._begin(index, offset)

    @property
    def path(self) -> str:
        return self._stretches[self._index].path

    @property
    def position(self) -> Any:
        return [self._index, self._offset, self._digest]

    @property
    def offset(self) -> int:
        """Where the next line begins."""
        return self._offset

    def begin_next(self) -> bool:
        """Go on with the next file; tell whether there is one."""
        if self._index + 1 >= len(self._stretches):
            return False
        self._begin(self._index + 1, None)
        return True

    def lines(self, limit: int) -> list[bytes]:
        """Return up to `limit` lines of this file; none where it, or the stretch of it, ends."""
        if self.file is None:
            return []
        lines = list(islice(self.file, limit))
        offset = self.file.tell()
        end = self._stretches[self._index].end
        if end is not None and offset > end:
            while lines and offset - len(lines[-1]) >= end:
                offset -= len(lines.pop())
            self.file.seek(offset)
        self._offset = offset
        return lines

    def go_to(self, offset: int) -> None:
        """Read on from another line of this file."""
        assert self.file is not None
        self.file.seek(offset)
        self._offset = offset

    def note_offset(self) -> None:
        """Take note of how far somebody else has read the file."""
        assert self.file is not None
        self._offset = self.file.tell()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def _begin(self, index: int, offset: int | None) -> None:
        self.close()
        path, start, _ = self._stretches[index]
        try:
            self.file = open(path, "rb", buffering=BUFFER_BYTES)  # noqa: SIM115
        except OSError as error:
            raise FlowError(f"{path}: can't be read: {error.strerror}; see to its rights") from None
        self._index = index
        self._digest = digest(self._stretches[: index + 1])
        if offset is not None:
            self.file.seek(offset)
        elif start:
            self.file.seek(start - 1)
            self.file.readline()
        self._offset = self.file.tell()
