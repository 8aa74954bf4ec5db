"""How a run in a child process asks its parent about its journal, and gets the answers.

Asks are frames on the child's stream; answers come back on the same one. The thread that reads them
is started by the first ask: a child whose handlers keep nothing has none. What coroutines say in
one turn of their loop goes out together, and answers that arrive together wake a loop once.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from shunter.worker.asks import JournalAnswer, JournalAsk, KeepAsk
from shunter.worker.pool import frames

if TYPE_CHECKING:  # slow to load, and there where a coroutine asks
    import asyncio

    _Waiting = Future[JournalAnswer] | asyncio.Future[JournalAnswer]

_READ_BYTES = 64 << 10


class ParentLine:
    """One for each child."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._listener: threading.Thread | None = None
        self._lock = threading.Lock()
        self._unsent: dict[asyncio.AbstractEventLoop, list[bytes]] = {}

    def ask(self, key: int, ask: JournalAsk) -> Future[JournalAnswer]:
        """Ask on behalf of a run."""
        answer = Future[JournalAnswer]()
        self.send(self._asked(key, ask, answer))
        return answer

    def ask_soon(self, key: int, ask: JournalAsk) -> asyncio.Future[JournalAnswer]:
        """Ask on behalf of a coroutine, at the end of this turn of its loop."""
        loop = sys.modules["asyncio"].get_running_loop()
        answer: asyncio.Future[JournalAnswer] = loop.create_future()
        self.send_soon(self._asked(key, ask, answer), loop)
        return answer

    def post(self, key: int, ask: KeepAsk) -> None:
        """Say something that needs no answer."""
        self.send(frames.asked(key, 0, ask))

    def send(self, data: bytes) -> None:
        """Send frames whole, whichever thread calls."""
        with self._sending:
            self._stream.sendall(data)

    def send_soon(self, frame: bytes, loop: asyncio.AbstractEventLoop) -> None:
        """Send a frame at the end of this turn of the loop that calls, with all others of it."""
        unsent = self._unsent.get(loop)
        if unsent is None:
            unsent = self._unsent[loop] = []
            loop.call_soon(self.flush, loop)
        unsent.append(frame)

    def flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send now what a loop has left for the end of its turn."""
        if unsent := self._unsent.pop(loop, None):
            # A broken pipe says that the parent has gone; the kernel is about to say so too.
            with contextlib.suppress(BrokenPipeError):
                self.send(b"".join(unsent))

    def _asked(self, key: int, ask: JournalAsk, answer: _Waiting) -> bytes:
        """Return the frame of an ask, and have its answer awaited."""
        if self._listener is None:
            self._start_listener()
        number = next(self._numbers)
        self._waiting[number] = answer
        return frames.asked(key, number, ask)

    def _start_listener(self) -> None:
        with self._lock:
            if self._listener is None:
                self._listener = threading.Thread(
                    target=self._listen, name="shunter-answers", daemon=True
                )
                self._listener.start()

    def _listen(self) -> None:
        data = bytearray()
        with contextlib.suppress(OSError):
            while some := self._stream.recv(_READ_BYTES):
                data += some
                self._hand_over(frames.answers_in(data))

    def _hand_over(self, answers: Iterable[tuple[int, JournalAnswer]]) -> None:
        """Wake who waits: each thread, and each loop once for all of its coroutines."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Answered]] = {}
        for number, answer in answers:
            waiting = self._waiting.pop(number, None)
            if isinstance(waiting, Future):
                waiting.set_result(answer)
            elif waiting is not None:
                by_loop.setdefault(waiting.get_loop(), []).append((waiting, answer))
        for loop, answered in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this
                loop.call_soon_threadsafe(_settle, answered)


if TYPE_CHECKING:
    _Answered = tuple[asyncio.Future[JournalAnswer], JournalAnswer]


def _settle(answered: list[_Answered]) -> None:
    for waiting, answer in answered:
        if not waiting.done():
            waiting.set_result(answer)
