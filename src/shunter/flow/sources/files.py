"""Which files a source reads, and which of them, or which stretches of them, a part of it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from shunter.errors import FlowError
from shunter.flow.location import AnyPath, FileInfo, Location
from shunter.flow.manifest import manifest_of

Place = AnyPath | Location
Where = Place | Iterable[Place]
T = TypeVar("T")

_SIGNS = frozenset("*?[")
"""What makes a pattern of a URL; on this host's disk, a file may have such a name."""


@dataclass(frozen=True, slots=True)
class SourcePart:
    """The index-th of `count` parts."""

    index: int = 0
    count: int = 1

    def of(self, things: Sequence[T]) -> list[T]:
        return list(things[self.index :: self.count])


class SourceFile(NamedTuple):
    """A file that is there. `modified` is when, in seconds since 1970."""

    url: str
    size: int
    modified: float

    @classmethod
    def of(cls, info: FileInfo) -> SourceFile:
        return cls(info.location.url, info.size, info.modified)

    @property
    def is_complete(self) -> bool:
        """True unless its name says that somebody is still writing it, or that it is no data."""
        name = self.url.rpartition("/")[2]
        return not name.startswith((".", "_")) and not name.endswith((".part", ".tmp"))


class ByteRange(NamedTuple):
    """The lines of a file that begin at `start` or behind it, and before `end`."""

    url: str
    start: int = 0
    end: int | None = None


def places_of(where: Where) -> list[Place]:
    """Return what a user gave as a list, which can be gone through more than once."""
    return [where] if isinstance(where, str | os.PathLike | Location) else list(where)


def found_files(places: Iterable[Place], suffix: str) -> list[SourceFile]:
    """Return the files of paths, URLs, patterns and folders, in the order of these."""
    return [file for place in places for file in _found(place, suffix, is_needed=True)]


def files_now(places: Iterable[Place], suffix: str) -> list[SourceFile]:
    """Return the files that are there just now and complete, by when they were written."""
    found = [file for place in places for file in _found(place, suffix, is_needed=False)]
    complete = {file.url: file for file in found if file.is_complete}
    return sorted(complete.values(), key=lambda file: (file.modified, file.url))


def _found(place: Place, suffix: str, *, is_needed: bool) -> list[SourceFile]:
    location = Location.of(place)
    is_pattern = not location.is_local and not _SIGNS.isdisjoint(location.url)
    if not is_pattern and location.is_folder():
        files = map(SourceFile.of, location.files())
        whole = [file for file in files if file.url.endswith(suffix) and file.is_complete]
        manifest = None if location.is_local else manifest_of(location)
        if manifest is None:
            return whole
        named = {(location / name).url for name in manifest.files}
        return [file for file in whole if file.url in named]
    if not is_pattern and location.is_file():
        return [SourceFile.of(location.info())]
    found = list(map(SourceFile.of, location.matching_files()))
    if not found and is_needed:
        here = f" in {Path.cwd()}" if location.is_local else ""
        raise FlowError(
            f"{place}: there is no such file{here}; give the path of a file or folder, "
            f"or a pattern such as 'data/*{suffix or '.txt'}'"
        )
    return found


def byte_ranges(files: Sequence[SourceFile], share: SourcePart) -> list[ByteRange]:
    """Return what a part reads: whole files if there are enough, else a stretch of each."""
    if len(files) >= share.count:
        return [ByteRange(file.url) for file in share.of(files)]
    cut = []
    for file in files:
        start, end = (file.size * place // share.count for place in (share.index, share.index + 1))
        cut.append(ByteRange(file.url, start, None if share.index + 1 == share.count else end))
    return cut
