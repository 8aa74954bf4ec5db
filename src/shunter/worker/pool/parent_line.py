"""How a run in a child process asks its parent about its journal, and gets the answers.

Asks are frames on the child's stream; answers come back on the same one. The thread that reads them
is started by the first ask: a child whose handlers keep nothing has none.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from concurrent.futures import Future

from shunter.worker.asks import JournalAnswer, JournalAsk, KeepAsk
from shunter.worker.pool import frames

_READ_BYTES = 64 << 10


class ParentLine:
    """One for each child."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[JournalAnswer]] = {}
        self._listener: threading.Thread | None = None
        self._lock = threading.Lock()

    def ask(self, key: int, ask: JournalAsk) -> Future[JournalAnswer]:
        """Ask on behalf of a run."""
        with self._lock:
            if self._listener is None:
                self._listener = threading.Thread(
                    target=self._listen, name="shunter-answers", daemon=True
                )
                self._listener.start()
        number = next(self._numbers)
        answer = self._waiting[number] = Future[JournalAnswer]()
        self.send(frames.asked(key, number, ask))
        return answer

    def post(self, key: int, ask: KeepAsk) -> None:
        """Say something that needs no answer."""
        self.send(frames.asked(key, 0, ask))

    def send(self, data: bytes) -> None:
        """Send frames whole, whichever thread calls."""
        with self._sending:
            self._stream.sendall(data)

    def _listen(self) -> None:
        data = bytearray()
        with contextlib.suppress(OSError):
            while some := self._stream.recv(_READ_BYTES):
                data += some
                for number, answer in frames.answers_in(data):
                    if (waiting := self._waiting.pop(number, None)) is not None:
                        waiting.set_result(answer)
