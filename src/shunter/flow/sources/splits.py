"""How much of a source's files one task reads, as Spark cuts files for itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from shunter.flow.sources.files import ByteRange, SourceFile

T = TypeVar("T")


class SplitSizes(NamedTuple):
    """No split is to have more than `most_bytes`, and all `tasks` are to have one.

    To open a file costs as much as to read `open_bytes`.
    """

    most_bytes: int
    open_bytes: int
    tasks: int

    def target(self, files: Iterable[SourceFile]) -> int:
        """Return how many bytes of these files one split is to have."""
        total = sum(file.size + self.open_bytes for file in files)
        return max(1, min(self.most_bytes, max(self.open_bytes, total // max(1, self.tasks))))


def ranges_of(files: Sequence[SourceFile], target: int) -> Iterator[tuple[ByteRange, int]]:
    """Cut files into ranges of about so many bytes; each comes with its size."""
    for file in files:
        if file.size <= target:
            yield ByteRange(file.url), file.size
            continue
        count = -(-file.size // target)
        cuts = [file.size * place // count for place in range(count + 1)]
        for start, end in pairwise(cuts):
            yield ByteRange(file.url, start, None if end == file.size else end), end - start


def packed(pieces: Iterable[tuple[T, int]], target: int, open_bytes: int) -> list[list[T]]:
    """Put neighbours together, up to so many bytes. Their order stays as it was."""
    splits: list[list[T]] = []
    filled = 0
    for piece, size in pieces:
        if not splits or filled + size > target:
            splits.append([])
            filled = 0
        splits[-1].append(piece)
        filled += size + open_bytes
    return splits
