"""The connections of one HTTP server: how many, and how long each may dawdle.

Uvicorn's protocol does the talking. Here it is decided who has to go: whoever takes too long for
its headers, who doesn't read its answer, and, when there are too many, those who wait for nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""How long a request's headers may take from its first byte, or from the connection's start."""

UNREAD_SECONDS = 20.0
"""How long a client may leave its answer untouched."""


class HttpConnections:
    """All connections of one server, in the order in which they were last busy."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: OrderedDict[HttpConnection, None] = OrderedDict()
        self._busy: set[HttpConnection] = set()
        self._unread: set[HttpConnection] = set()
        self.cut_off = 0

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    @property
    def unread_bytes(self) -> int:
        """How much of the answers waits for clients that read slowly."""
        return sum(connection.unread_bytes for connection in self._unread)

    def opened(self, connection: HttpConnection) -> None:
        """Take a newcomer in; the one that has been idle the longest goes if there are too many."""
        self._idle[connection] = None
        if len(self) > self._most:
            self.cut_off += 1
            next(iter(self._idle)).cut_off()

    def closed(self, connection: HttpConnection) -> None:
        self._idle.pop(connection, None)
        self._busy.discard(connection)
        self._unread.discard(connection)

    def set_busy(self, connection: HttpConnection, *, is_busy: bool) -> None:
        """Note that a request is under way, or that its answer is complete."""
        if is_busy:
            self._idle.pop(connection, None)
            self._busy.add(connection)
        elif connection in self._busy:
            self._busy.remove(connection)
            self._idle[connection] = None

    def set_unread(self, connection: HttpConnection, *, is_unread: bool) -> None:
        """Note that a client does not read as fast as it is answered, or does so again."""
        if is_unread:
            self._unread.add(connection)
        else:
            self._unread.discard(connection)


class HttpConnection(H11Protocol):
    """One connection."""

    def __init__(self, *args: Any, others: HttpConnections, **how: Any) -> None:
        super().__init__(*args, **how)
        self._others = others
        self._deadline: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None

    @property
    def unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def cut_off(self) -> None:
        """Hang up at once, whatever is under way."""
        self._others.closed(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()
        self._others.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        self._stop_watch()
        self._others.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_waiting():
            self._expect_headers()

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._headers_came()
            self._others.set_busy(self, is_busy=True)

    def on_response_complete(self) -> None:
        self._others.set_busy(self, is_busy=False)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._others.set_unread(self, is_unread=True)
        self._watch_reading(self.unread_bytes)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._others.set_unread(self, is_unread=False)
        self._stop_watch()

    def _is_waiting(self) -> bool:
        """True if no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_headers(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.cut_off)

    def _headers_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _watch_reading(self, unread: int) -> None:
        self._stop_watch()
        self._watch = self.loop.call_later(UNREAD_SECONDS, self._check_reading, unread)

    def _check_reading(self, before: int) -> None:
        """Hang up if nothing has been read since then."""
        self._watch = None
        unread = self.unread_bytes
        if unread >= before:
            self.cut_off()
        else:
            self._watch_reading(unread)

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
