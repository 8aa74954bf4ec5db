"""What all sources of files have in common: which files, their parts and splits, and following."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Generic, Self, TypeVar

from shunter.flow.sources.files import SourceFile, SourcePart, Where, found_files, places_of
from shunter.flow.sources.pieces import ArrivingPieces, GivenPieces, Pieces
from shunter.flow.sources.port import joined
from shunter.flow.sources.splits import SplitSizes

READ_SECONDS = 0.02
"""Small files are read together for so long."""

T = TypeVar("T")


class FileSource(ABC, Generic[T]):
    """Reads pieces of files, one after the other. `suffix` is that of the files in a folder."""

    suffix = ""

    def __init__(self, where: Where, *, follow: bool = False) -> None:
        self._places = places_of(where)
        self._follow = follow
        self._share = SourcePart()
        self._split: Sequence[T] | None = None
        self._checked: list[SourceFile] | None = None

    def check(self) -> None:
        """Raise a FlowError if there is no such file."""
        if not self._follow:
            self._checked = found_files(self._places, self.suffix)

    def part(self, index: int, count: int) -> Self:
        made = copy(self)
        made._share, made._checked = SourcePart(index, count), None
        return made

    def splits(self, sizes: SplitSizes) -> list[list[T]] | None:
        """Return what as many tasks may read; None for a folder that is followed."""
        if self._follow:
            return None
        files, self._checked = self._checked, None
        if files is None:
            files = found_files(self._places, self.suffix)
        return self._cut(files, sizes.target(files), sizes.open_bytes)

    def at(self, split: Sequence[T]) -> Self:
        made = copy(self)
        made._split, made._checked = split, None
        return made

    def read(self, limit: int) -> list[Any] | None:
        events: list[Any] = []
        until = time.monotonic() + READ_SECONDS
        while True:
            some = self._some(limit - len(events))
            if some is not None:
                events = joined(events, some)
            elif not self._begin_next():
                return events or ([] if self._follow else None)
            if len(events) >= limit or (events and time.monotonic() > until):
                return events

    @abstractmethod
    def open(self, position: Any | None) -> None: ...

    @abstractmethod
    def _some(self, limit: int) -> list[Any] | None:
        """Return events of the piece that was begun; None at its end."""

    @abstractmethod
    def _begin_next(self) -> bool:
        """Begin the next piece; return False if there is none."""

    @abstractmethod
    def _cut(self, files: list[SourceFile], target: int, open_bytes: int) -> list[list[T]]:
        """Return the splits of files, each of about so many bytes."""

    @abstractmethod
    def _pieces_in(self, files: list[SourceFile]) -> list[T]:
        """Return what this part of the source reads."""

    @abstractmethod
    def _whole(self, url: str) -> T:
        """Return the piece that is a whole file."""

    def _pieces(self) -> Pieces[T]:
        if self._follow:
            return ArrivingPieces(self._places, self.suffix, self._share, self._whole)
        if self._split is not None:
            return GivenPieces(self._places, self._split)
        files = found_files(self._places, self.suffix)
        return GivenPieces(self._places, self._pieces_in(files))
