"""The way to one child process, where several jobs share a child: jobs, and words about them.

Like the queue that all children read from, but its parent decides what goes into it. A word names
the run that it is about by the run's key, with a mark, so that it is never taken for a job.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum

from shunter.worker.pool.child_queue import KEY, ChildQueue

WORD_MARK = 1 << 63
"""Keys of jobs are counted from 1 and never get there."""


class Word(IntEnum):
    """What a child is told about one of its runs."""

    ASK = 1
    """It is wanted stopped: cancel its task, and let its context say so."""
    TELL = 2
    """It has not stopped: raise Terminated in it."""


class ChildChannel(ChildQueue):
    """First in, first out; words come after the jobs that went before them."""

    def __init__(self) -> None:
        super().__init__()
        self._words: deque[bytes] = deque()

    def say(self, key: int, word: Word) -> None:
        """Add a word about a run; `pump` sends it on."""
        self._words.append(KEY.pack(key | WORD_MARK) + bytes((word,)))

    def pump(self) -> bool:
        if super().pump():
            return True
        try:
            while self._words:
                self._entry.send(self._words[0])
                self._words.popleft()
        except BlockingIOError:
            return True
        except OSError:
            self._words.clear()  # the child is gone, or was told to leave
        return False

    def drain(self) -> list[int]:
        """Take out all jobs that the child has not taken, and return their keys."""
        self._words.clear()
        return [key for key in super().drain() if not key & WORD_MARK]
