"""What a source of files reads one after the other, and how a position names one of them.

Files that are there when reading begins have numbers; so that a position can't be taken for one in
other files, it has a digest of all files up to that one, and files that come behind it may be new.
In a folder that is followed, a position has a short digest of the name of each file that was begun
and is still there.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from shunter.errors import FlowError
from shunter.flow.sources.files import Place, SourceFile, SourcePart, files_now

LOOK_SECONDS = 0.5
"""How often a folder is looked at for new files."""

NAME_BYTES = 8

T = TypeVar("T")
PieceT_co = TypeVar("PieceT_co", covariant=True)


class Pieces(Protocol[PieceT_co]):
    """Pieces in order. `mark` names the one that was given last, for `resume` to give it again."""

    is_endless: bool

    def next(self) -> PieceT_co | None:
        """Return the next piece; None if there is none, or none yet."""

    def resume(self, mark: Any) -> PieceT_co | None:
        """Return the piece that a mark names, if it names one, and go on behind it."""

    @property
    def mark(self) -> Any: ...


class GivenPieces(Generic[T]):
    """Pieces that are all known at the beginning."""

    is_endless = False

    def __init__(self, places: Sequence[Place], pieces: Sequence[T]) -> None:
        self._places, self._pieces = places, pieces
        self._index = -1
        self._digest = b""

    @property
    def mark(self) -> Any:
        return [self._index, self._digest.hex()]

    def next(self) -> T | None:
        if self._index + 1 >= len(self._pieces):
            return None
        self._index += 1
        piece = self._pieces[self._index]
        self._digest = hashlib.blake2b(self._digest + repr(piece).encode(), digest_size=8).digest()
        return piece

    def resume(self, mark: Any) -> T | None:
        index, expected = mark
        piece = None
        while self._index < index and (piece := self.next()) is not None:
            continue
        if self.mark != [index, expected]:
            raise FlowError(
                f"{', '.join(map(str, self._places))}: the files are not those that the last run "
                "has read; files may be added at the end of their order, but none be taken away; "
                "put them back, or begin a new run"
            )
        return piece


class ArrivingPieces(Generic[T]):
    """The files of a folder as they arrive: by when they were written, and then by their names."""

    is_endless = True

    def __init__(
        self,
        places: Sequence[Place],
        suffix: str,
        share: SourcePart,
        piece_of: Callable[[str], T],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places, self._suffix, self._share, self._piece_of = places, suffix, share, piece_of
        self._clock, self._looked_at = clock, -LOOK_SECONDS
        self._waiting: deque[str] = deque()
        self._begun: dict[bytes, None] = {}
        self._url = ""

    @property
    def mark(self) -> Any:
        return [self._url, b"".join(self._begun)]

    def next(self) -> T | None:
        if not self._waiting and self._clock() - self._looked_at >= LOOK_SECONDS:
            self._look()
        if not self._waiting:
            self._url = ""
            return None
        self._url = self._waiting.popleft()
        self._begun[_digest_of(self._url)] = None
        return self._piece_of(self._url)

    def resume(self, mark: Any) -> T | None:
        self._url, begun = mark
        starts = range(0, len(begun), NAME_BYTES)
        self._begun = dict.fromkeys(begun[start : start + NAME_BYTES] for start in starts)
        return self._piece_of(self._url) if self._url else None

    def _look(self) -> None:
        files = [file for file in files_now(self._places, self._suffix) if self._is_mine(file)]
        self._looked_at = self._clock()
        there = {_digest_of(file.url): file.url for file in files}
        self._begun = {name: None for name in self._begun if name in there}
        self._waiting.extend(url for name, url in there.items() if name not in self._begun)

    def _is_mine(self, file: SourceFile) -> bool:
        number = int.from_bytes(_digest_of(file.url), "big")
        return number % self._share.count == self._share.index


def _digest_of(url: str) -> bytes:
    return hashlib.blake2b(url.encode(), digest_size=NAME_BYTES).digest()
