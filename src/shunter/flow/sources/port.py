"""What gives events to a flow. Users' own sources need no import of ours.

All methods are called from one thread. A source may offer more methods:

    part(index, count) -> Source      the index-th of `count` parts, for as many workers: no event
                                      is in two of them, and all events are in one
    acknowledged(position) -> None    what was read up to there is in a completed checkpoint, and
                                      will not be asked for again
    check() -> None                   raise a FlowError if it can't be opened here, without opening
                                      it; asked before a run starts anything
"""

from __future__ import annotations

from typing import Any, Protocol


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
