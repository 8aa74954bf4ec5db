"""What a child process does right now, in memory that its parent can see.

The child writes what it runs, since when and how far it has come; the parent writes which run
it wants stopped. Each cell is one aligned machine word, so a reader never sees half a write;
cells that belong together are guarded by a counter that is odd while they change.
Times are of the monotonic clock, which all processes of a host share.
"""

from __future__ import annotations

import math
import mmap
import os

from msgspec import Struct

from shunter.model.limits import MAX_NOTE_BYTES

_KEY, _STARTED, _CANCEL, _CHANGES, _PROGRESS_KEY, _DONE, _TOTAL, _NOTE_BYTES = range(8)
_NOTE_AT = 64

RUN_STATE_BYTES = -(-(_NOTE_AT + MAX_NOTE_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE


class RunProgress(Struct, frozen=True):
    """How far the run with this key has come; `change` tells one note from the next."""

    change: int
    key: int
    done: float
    total: float | None
    note: str = ""


class SharedRunState:
    """One child's shared state. Key 0 means that nothing runs."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, RUN_STATE_BYTES)
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("Q")
        self._numbers = self._bytes.cast("d")

    @staticmethod
    def create() -> int:
        """Return the descriptor of a fresh shared state, for a child to inherit."""
        fd = os.memfd_create("shunter-run-state")
        os.ftruncate(fd, RUN_STATE_BYTES)
        return fd

    def close(self) -> None:
        for view in (self._words, self._numbers, self._bytes):
            view.release()
        self._map.close()

    def begin(self, key: int, now: float) -> None:
        """The child took a job and is about to run it."""
        self._numbers[_STARTED] = now
        self._words[_KEY] = key

    def end(self) -> None:
        """The child has written the run's outcome."""
        self._words[_KEY] = 0

    @property
    def key(self) -> int:
        """The run that is going on, or 0."""
        return self._words[_KEY]

    @property
    def started(self) -> float:
        """When the run that is going on began."""
        return self._numbers[_STARTED]

    def ask_to_stop(self, key: int) -> None:
        """The parent wants the run with this key stopped."""
        self._words[_CANCEL] = key

    @property
    def key_to_stop(self) -> int:
        """The run that shall stop, or did."""
        return self._words[_CANCEL]

    @property
    def is_asked_to_stop(self) -> bool:
        """True if the run that is going on is the one that shall stop."""
        key = self._words[_KEY]
        return key != 0 and self._words[_CANCEL] == key

    def note_progress(self, done: float, total: float | None, note: bytes = b"") -> None:
        """The run has come this far."""
        words, numbers = self._words, self._numbers
        change = words[_CHANGES] | 1
        words[_CHANGES] = change
        words[_PROGRESS_KEY] = words[_KEY]
        numbers[_DONE] = done
        numbers[_TOTAL] = math.nan if total is None else total
        words[_NOTE_BYTES] = len(note)
        if note:
            self._bytes[_NOTE_AT : _NOTE_AT + len(note)] = note
        words[_CHANGES] = change + 1

    def progress(self) -> RunProgress | None:
        """Return the last note of progress, or None where one is just being written."""
        words, numbers = self._words, self._numbers
        change = words[_CHANGES]
        key, done, total = words[_PROGRESS_KEY], numbers[_DONE], numbers[_TOTAL]
        length = words[_NOTE_BYTES]
        note = bytes(self._bytes[_NOTE_AT : _NOTE_AT + length]) if length else b""
        if change & 1 or words[_CHANGES] != change:
            return None
        return RunProgress(change, key, done, None if math.isnan(total) else total, note.decode())
