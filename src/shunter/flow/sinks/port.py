"""What takes events from a flow. Users' own sinks need no import of ours.

All methods are called from one thread. A sink may offer more methods:

    part(index, count) -> Sink            the index-th of `count`, for as many workers
    abandon() -> None                     the run ends early: let go of files and connections, and
                                          leave what was taken where a next `open` finds it
    on_instruction(instruction) -> None   an instruction other than a checkpoint has come this far
    open_shown(saved) -> None             called in place of `open` where output is to be seen while
                                          the flow runs, as in streams on Spark; then comes, after
    publish() -> None                     each checkpoint that was kept: show what it holds; may
                                          be called again, also after the next `open_shown`
    check() -> None                       raise a FlowError if it can't be opened here, without
                                          opening it; asked before a run starts anything

and attributes: `files`, how many workers it wants; `route_key`, a function of an event, by which
events go to its workers; `runs_in_tasks`, true if tasks of Spark are to open it, several at once.
All other sinks are fed where the flow was started, but for those that write files (`file_sink.py`).
Several workers of these have no `part` but a share, and who runs the flow publishes for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Sink(Protocol):
    """Where events end, and from which they can be taken back up to a checkpoint."""

    def open(self, saved: Any | None) -> None:
        """Begin a new run, or go back to where a checkpoint was; None is a new run."""

    def write(self, events: Sequence[Any]) -> int:
        """Take events, and return how many, from the first on; 0 is "later"."""

    def checkpoint(self) -> Any:
        """Make safe what was taken, and return what `open` needs to come back to here."""

    def close(self) -> None:
        """Publish: the end of the stream has come."""
