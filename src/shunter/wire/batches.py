"""Messages of a bounded size: many small things together, a large one by itself. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

BATCH_BYTES = 128 * 1024
"""Well below what is sent in parts: many small things together never wait for leave."""


def batches(
    items: Iterable[T], weight: Callable[[T], int], *, most: int | None = None
) -> Iterator[list[T]]:
    """Split items, in order, into lists of about BATCH_BYTES and at most `most` items."""
    batch: list[T] = []
    size = 0
    for item in items:
        grown = size + weight(item)
        if batch and (grown > BATCH_BYTES or len(batch) == most):
            yield batch
            batch, grown = [], weight(item)
        batch.append(item)
        size = grown
    if batch:
        yield batch
