"""The stream of a job, as its reader sees it: chunks in order, each once, from the start.

Chunks are numbered. A run that is repeated numbers its own from where the last one that counts
ended: what an earlier run has emitted from that number on is void. Which chunk comes next is
decided here, without a socket and a clock; whoever reads asks for entries, and asks again.
Rules: docs/spec/steps.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from shunter.model.journal import JournalEntry, chunk_place, decode_chunks

FIRST_PAUSE = 0.05
MOST_PAUSE = 0.5
"""How long a reader that has seen all there is waits before it asks again."""


class Chunk(Struct, frozen=True):
    """One value that a handler has emitted, as msgpack and perhaps sealed."""

    attempt: int
    number: int
    body: bytes


class Restart(Struct, frozen=True):
    """Chunks from this number on came from a run that was repeated: throw them away."""

    attempt: int
    number: int


class StreamReader:
    """Where a reader is: `after` is the key of the last entry it has, `number` its next chunk."""

    def __init__(self) -> None:
        self.after = ""
        self.number = 0
        self.attempt = 0

    def read(self, entries: Iterable[JournalEntry]) -> Iterator[Chunk | Restart]:
        """Yield what entries behind `after` say."""
        for entry in entries:
            attempt, first = chunk_place(entry.key)
            self.after = entry.key
            if attempt != self.attempt:
                if first < self.number:
                    yield Restart(attempt, first)
                    self.number = first
                self.attempt = attempt
            for number, body in enumerate(decode_chunks(entry.body), first):
                if number >= self.number:
                    self.number = number + 1
                    yield Chunk(attempt, number, body)


def next_pause(pause: float, *, has_news: bool) -> float:
    """Return how long to wait before the next look, after one of this length."""
    return FIRST_PAUSE if has_news else min(pause * 1.5, MOST_PAUSE)
