"""Which files a source reads, and which of them, or which stretches of them, a part of it reads.

A position names a file by its number. So that it can't be taken for one in other files, it also
has a digest of all files up to that one; files that come behind it may be new.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from shunter.errors import FlowError

AnyPath = str | os.PathLike[str]
Where = AnyPath | Iterable[AnyPath]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourcePart:
    """The index-th of `count` parts."""

    index: int = 0
    count: int = 1

    def of(self, things: Sequence[T]) -> list[T]:
        return list(things[self.index :: self.count])


class ByteRange(NamedTuple):
    """The lines of a file that begin at `start` or behind it, and before `end`."""

    path: str
    start: int = 0
    end: int | None = None


def found_files(where: Where, suffix: str) -> list[str]:
    """Return the files: of a path, of a pattern, in a folder, or of several of these."""
    if isinstance(where, str | os.PathLike):
        return _matching(os.fspath(where), suffix)
    return [path for each in where for path in _matching(os.fspath(each), suffix)]


def _matching(pattern: str, suffix: str) -> list[str]:
    if os.path.isdir(pattern):
        return sorted(glob.glob(os.path.join(glob.escape(pattern), f"*{suffix}")))
    if os.path.exists(pattern):
        return [pattern]
    found = sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    if not found:
        raise FlowError(
            f"{pattern}: there is no such file in {Path.cwd()}; give the path of a file or folder, "
            f"or a pattern such as 'data/*{suffix}'"
        )
    return found


def byte_ranges(files: Sequence[str], share: SourcePart) -> list[ByteRange]:
    """Return what a part reads: whole files if there are enough, else a stretch of each."""
    if len(files) >= share.count:
        return [ByteRange(path) for path in share.of(files)]
    cut = []
    for path in files:
        size = os.path.getsize(path)
        start, end = (size * place // share.count for place in (share.index, share.index + 1))
        cut.append(ByteRange(path, start, None if share.index + 1 == share.count else end))
    return cut


def digest(things: Iterable[object]) -> str:
    """Return a short text that is the same only for the same things."""
    return hashlib.blake2b(repr(list(things)).encode(), digest_size=8).hexdigest()


def check_same(things: Sequence[object], index: int, expected: str, where: Where) -> None:
    """Raise if the files up to where an earlier run stopped are not those of that run."""
    if digest(things[: index + 1]) != expected:
        raise FlowError(
            f"{where}: the files are not those that the last run has read; files may be added at "
            "the end of their order, but none be taken away; put them back, or begin a new run"
        )


def line_number(path: str, offset: int) -> int:
    """Return the number of the line that begins at `offset`."""
    with open(path, "rb") as file:
        count, left = 1, offset
        while left and (block := file.read(min(left, 1 << 20))):
            count += block.count(b"\n")
            left -= len(block)
        return count
