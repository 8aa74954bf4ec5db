"""What gives events to a flow. Users' own sources need no import of ours.

All methods are called from one thread. A source may offer more methods:

    part(index, count) -> Source      the index-th of `count` parts, for as many workers: no event
                                      is in two of them, and all events are in one
    splits(sizes) -> list | None      where it can be cut for any number of tasks: descriptions of
                                      its splits, in the order of its events, each a value that
                                      can be pickled; None if it can't be cut after all. `sizes`
                                      are `SplitSizes`: how much one split should be
    at(split) -> Source               the source of one split alone
    acknowledged(position) -> None    what was read up to there is in a completed checkpoint, and
                                      will not be asked for again
    check() -> None                   raise a FlowError if it can't be opened here, without opening
                                      it; asked before a run starts anything

A source whose input can be bad, such as a line that is no JSON, returns `WithBadInput` from `read`,
a list with a `BadInput` in each such place. It becomes a bad event of the source's stage, with
which the flow does as its `on_error` says. What `read` raises ends the run.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

RAW_LETTERS = 4_096
"""How much of bad input is kept."""


class BadInput(msgspec.Struct, frozen=True):
    """Input that is no event. `where` is the file and line, and `raw` the beginning of the text."""

    where: str
    error: str
    raw: str

    def __str__(self) -> str:
        return f"{self.where}: {self.error}"


class WithBadInput(list[Any]):
    """Events, some of which are `BadInput`. Being a type of its own, a plain list costs no look."""


def bad_input(where: str, error: Exception | str, raw: str | bytes) -> BadInput:
    """Make one of an error, with as much of the input as is kept."""
    kept = raw[: RAW_LETTERS * 4]
    text = kept.decode(errors="replace") if isinstance(kept, bytes) else kept
    return BadInput(where, str(error), text[:RAW_LETTERS].rstrip("\r\n"))


def joined(events: list[Any], more: list[Any]) -> list[Any]:
    """Return all of these, which may change the first list."""
    if not events:
        return more
    if type(more) is WithBadInput and type(events) is list:
        events = WithBadInput(events)
    events += more
    return events


class Source(Protocol):
    """Events that can be read again from a position on."""

    def open(self, position: Any | None) -> None:
        """Begin, or go on where `position` once said; None is the beginning."""

    def read(self, limit: int) -> list[Any] | None:
        """Return up to `limit` events, an empty list if none is there just now, None at the end.

        Takes no longer than about 50 ms.
        """

    def position(self) -> Any:
        """Say where to go on behind what was read, in a value that JSON or msgpack can hold."""

    def close(self) -> None:
        """Let go of files and connections."""
