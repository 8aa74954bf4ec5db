"""A load of POSTs that costs little itself, so that the server is the limit.

A program of its own. Keep-alive connections, each with one request under way: as soon as its
answer is there, the same bytes are sent again. Of an answer only the status and the length are
read. Prints how many requests were answered with a 2xx in a second, and which part of a core that
took here.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

from bench.stage import conclude

CONNECTIONS = 64
WARM_UP_SECONDS = 0.5
BODY = b'{"type":"echo","payload":[1]}'

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Tally:
    """What all connections have seen together."""

    def __init__(self) -> None:
        self.answered = 0
        self.is_over = False
        self.failure = ""


class Connection(asyncio.Protocol):
    """Sends one request, and again when its answer is complete."""

    def __init__(self, request: bytes, tally: Tally) -> None:
        self._request, self._tally = request, tally
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(self._buffer, 0, head)
        if length is None or len(self._buffer) < head + 4 + int(length[1]):
            return
        if not self._buffer.startswith(b"HTTP/1.1 2"):
            self._tally.failure = self._buffer[:300].decode(errors="replace")
            self._transport.close()
            return
        self._tally.answered += 1
        self._buffer = b""
        if self._tally.is_over:
            self._transport.close()
        else:
            self._transport.write(self._request)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._tally.is_over and not self._tally.failure:
            self._tally.failure = f"the connection was lost: {error}"


def request_to(port: int, path: str, token: str) -> bytes:
    """Write the request, once for all."""
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"{authorization}"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    return head.encode() + BODY


async def _load(port: int, path: str, seconds: float, token: str) -> None:
    loop, tally = asyncio.get_running_loop(), Tally()
    request = request_to(port, path, token)
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: Connection(request, tally), "127.0.0.1", port)
    await asyncio.sleep(WARM_UP_SECONDS)
    before, cpu, began = tally.answered, time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    answered, took = tally.answered - before, time.perf_counter() - began
    spent = time.process_time() - cpu
    tally.is_over = True
    if tally.failure:
        raise SystemExit(f"a request failed: {tally.failure}")
    await asyncio.sleep(WARM_UP_SECONDS)
    conclude(per_second=answered / took, own_core_part=spent / took, total=tally.answered)


if __name__ == "__main__":
    port, path, seconds, token = sys.argv[1:]
    asyncio.run(_load(int(port), path, float(seconds), token))
