"""Somebody slow, such as a server, is asked in a thread of its own, some batches ahead."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator
from typing import Any

WAIT_SECONDS = 0.04
BATCHES = 4

Batches = Callable[[threading.Event], Generator[Any, None, None]]


class _End:
    """What comes behind the last batch; with an error, if that was the reason."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class ReadingAhead:
    """Draws batches in a thread. They are made by a generator that ends when the event is set."""

    def __init__(self, batches: Batches) -> None:
        self._stopped = threading.Event()
        self._queue: queue.Queue[Any] = queue.Queue(BATCHES)
        self._end: _End | None = None
        self._thread = threading.Thread(
            target=self._draw, args=(batches,), name="shunter-source", daemon=True
        )
        self._thread.start()

    def take(self) -> Any | None:
        """Return the next batch, or None if there is none within a moment, or ever again."""
        if self._end is None:
            try:
                taken = self._queue.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                return None
            if not isinstance(taken, _End):
                return taken
            self._end = taken
        if self._end.error is not None:
            raise self._end.error
        return None

    @property
    def is_at_end(self) -> bool:
        return self._end is not None

    def close(self) -> None:
        """Stop; what is under way is let be."""
        self._stopped.set()

    def _draw(self, batches: Batches) -> None:
        end = _End()
        try:
            with contextlib.closing(batches(self._stopped)) as drawn:
                for batch in drawn:
                    self._put(batch)
                    if self._stopped.is_set():
                        return
        except BaseException as error:
            end = _End(error)
        self._put(end)

    def _put(self, what: Any) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(what, timeout=1.0)
                return
