"""Files of lines, read one after the other as one stream with a position."""

from __future__ import annotations

import io
from itertools import islice
from typing import Any, BinaryIO, cast

from shunter.flow.location import Location, file_faults
from shunter.flow.sources.files import ByteRange
from shunter.flow.sources.pieces import Pieces

BUFFER_BYTES = 1 << 18

STORE_BYTES = 1 << 22
"""So much is asked for at once where the file is in a store: each time takes a round trip."""


class LineFiles:
    """The position is that of the file among others, and the offset of the next line."""

    def __init__(self, pieces: Pieces[ByteRange], position: Any | None) -> None:
        self._pieces = pieces
        self._range = ByteRange("")
        self._offset = 0
        self._known = 0, 1
        self.file: BinaryIO | None = None
        if position is not None:
            mark, offset = position
            resumed = pieces.resume(mark)
            if resumed is not None:
                self._begin(resumed, offset)

    @property
    def url(self) -> str:
        return self._range.url

    @property
    def position(self) -> Any:
        return [self._pieces.mark, self._offset]

    @property
    def offset(self) -> int:
        """Where the next line begins."""
        return self._offset

    def begin_next(self) -> bool:
        """Go on with the next file; return False if there is none."""
        following = self._pieces.next()
        if following is None:
            self.close()
            return False
        self._begin(following, None)
        return True

    def lines(self, limit: int) -> list[bytes]:
        """Return up to `limit` lines of this file; none where it, or the stretch of it, ends."""
        if self.file is None:
            return []
        lines = list(islice(self.file, limit))
        offset = self.file.tell()
        end = self._range.end
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

    def line_at(self, offset: int) -> int:
        """Return the number of the line that begins at `offset`."""
        assert self.file is not None
        known, count = self._known if self._known[0] <= offset else (0, 1)
        stood = self.file.tell()
        self.file.seek(known)
        while known < offset and (block := self.file.read(min(offset - known, STORE_BYTES))):
            count += block.count(b"\n")
            known += len(block)
        self.file.seek(stood)
        self._known = offset, count
        return count

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Return some of the file, and stand behind it."""
        assert self.file is not None
        self.file.seek(offset)
        return self.file.read(size)

    def line_behind(self, offset: int) -> int:
        """Return where the line behind the one at `offset` begins, and stand there."""
        assert self.file is not None
        self.file.seek(offset)
        self.file.readline()
        return self.file.tell()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def _begin(self, piece: ByteRange, offset: int | None) -> None:
        self.close()
        location = Location(piece.url)
        with file_faults(location, "read"):
            self.file = _opened(location)
        self._range, self._known = piece, (0, 1)
        if offset is not None:
            self.file.seek(offset)
        elif piece.start:
            self.file.seek(piece.start - 1)
            self.file.readline()
        self._offset = self.file.tell()


def _opened(location: Location) -> BinaryIO:
    if location.is_local:
        return open(location.url, "rb", buffering=BUFFER_BYTES)
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, location.open()), STORE_BYTES))
