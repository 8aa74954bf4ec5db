"""HTTP between simulated processes: requests go to the real applications, without their bytes.

A call is one request and one answer on a connection, with the faults of the wires under it. Who
can't connect knows that nothing was sent; who loses the connection later does not know. A server
may also refuse connections, answer with an error, or take requests and do nothing with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from starlette.types import ASGIApp

from shunter.net.http_calls import CONNECT_SECONDS, Answer, Caller, CallFailed
from shunter.net.web.server import SHUTDOWN_SECONDS, HttpServer
from shunter.testing.simulation.links import Channel, Frames, Wires
from shunter.testing.simulation.loop import ProcessLoop

FIRST_PORT = 50_000
KEPT_PART = 0.7
"""How many of the calls find a connection that was kept open."""

REFUSED = "Connection refused"
BROKEN = "Server disconnected"


class ServerTrouble:
    """What is wrong with a host's servers; it outlives the process."""

    def __init__(self) -> None:
        self.refuses_until = 0.0
        self.refuses_with = 0
        """The status of its answers; 0 if nobody can connect."""
        self.hangs_until = 0.0


class SimulatedServer(HttpServer):
    """Serves an application from `serve()` until `stop()`."""

    def __init__(
        self, network: HttpNetwork, loop: ProcessLoop, app: ASGIApp, host: str, port: int
    ) -> None:
        self.loop = loop
        self.app = app
        self.host = host
        self.port = port
        self.under_way: set[asyncio.Task[None]] = set()
        self._network = network
        self._stopping = asyncio.Event()

    async def serve(self) -> None:
        self._network.listen(self)
        await self._stopping.wait()
        self.close()
        if self.under_way:
            await asyncio.wait(set(self.under_way), timeout=SHUTDOWN_SECONDS)

    async def started(self) -> None:
        await asyncio.sleep(0)

    def stop(self) -> None:
        self._stopping.set()

    def close(self) -> None:
        self._network.leave(self)

    def take(self, call: Call) -> None:
        """A request has arrived; it is dealt with on this process' own loop."""
        self.loop.call_soon(self._begin, call)

    def _begin(self, call: Call) -> None:
        if not call.is_over:
            task = self.loop.create_task(self._answer(call))
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)

    async def _answer(self, call: Call) -> None:
        status, chunks = 500, list[bytes]()
        has_read = False

        async def receive() -> dict[str, Any]:
            nonlocal has_read
            if has_read:
                await asyncio.sleep(3600.0)
                return {"type": "http.disconnect"}
            has_read = True
            return {"type": "http.request", "body": call.body, "more_body": False}

        async def send(message: Mapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                chunks.append(message.get("body", b""))

        await self.app(call.scope, receive, send)
        call.answer(status, b"".join(chunks))


class Call:
    """One request and its answer."""

    def __init__(self, network: HttpNetwork, source: ProcessLoop, server: SimulatedServer) -> None:
        self.source, self.server = source, server
        self.is_over = False
        self.scope: dict[str, Any] = {}
        self.body = b""
        self.answered: asyncio.Future[Answer] = source.create_future()
        self._network = network
        here, there, wires = source.name, server.host, network.wires
        self._up = Channel(wires, wires.between(here, there), self._arrived, self.break_off)
        self._way_back = wires.between(there, here)
        self._down = Channel(wires, self._way_back, self._came_back, self.break_off)

    def send(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> None:
        path, _, query = target.partition("?")
        self.body = body
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
            ],
            "client": (self.source.name, 1),
            "server": (self.server.host, self.server.port),
        }
        self._up.send([method.encode(), target.encode(), body])

    def answer(self, status: int, body: bytes) -> None:
        """The application is done with it."""
        if self._way_back.loses_answers:
            self.break_off()
        elif not self.is_over:
            self._down.send([str(status).encode(), body])

    def break_off(self) -> None:
        """Break the connection: the caller hears of it, and knows nothing."""
        if not self.is_over:
            self.end()
            if not self.answered.done():
                self.answered.set_exception(CallFailed(BROKEN, was_sent=True))

    def end(self) -> None:
        self.is_over = True
        self._up.kill()
        self._down.kill()
        self._network.calls.pop(self, None)

    def _arrived(self, _: Frames) -> None:
        self._network.arrived(self)

    def _came_back(self, frames: Frames) -> None:
        self.end()
        if not self.answered.done():
            self.answered.set_result(Answer(int(frames[0]), frames[1]))


class SimulatedCaller(Caller):
    """Makes the calls of one process."""

    def __init__(self, network: HttpNetwork, loop: ProcessLoop) -> None:
        self._network, self._loop = network, loop
        self._known: set[SimulatedServer] = set()

    async def call(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        json: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        place = f"{host}:{port}"
        began = self._loop.time()
        server = await self._connected(host, port, min(CONNECT_SECONDS, seconds))
        call = Call(self._network, self._loop, server)
        self._network.calls[call] = None
        sent = dict(headers or {})
        if json is not None:
            sent |= {"content-type": "application/json", "content-length": str(len(json))}
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        try:
            call.send(method, target, json or b"", sent)
            async with asyncio.timeout_at(began + seconds):
                answer = await call.answered
        except TimeoutError:
            reason = f"no answer from {place} within {seconds:g} s"
            raise CallFailed(reason, was_sent=True) from None
        finally:
            call.end()
        self._known.add(server)
        return answer

    async def close(self) -> None:
        self._known.clear()

    async def _connected(self, host: str, port: int, seconds: float) -> SimulatedServer:
        """Return the server at an address, or raise a CallFailed."""
        network, name = self._network, self._loop.name
        wires = network.wires
        server = network.server_at(host, port)
        if server in self._known and wires.random.random() < KEPT_PART:
            assert server is not None
            return server
        place = f"can't connect to {host}:{port}"
        there, back = wires.between(name, host), wires.between(host, name)
        takes = there.latency + there.extra_latency + back.latency + back.extra_latency
        if not wires.is_open(name, host) or takes > seconds:
            await asyncio.sleep(seconds)
            raise CallFailed(f"{place}: timed out", was_sent=False)
        await asyncio.sleep(takes)
        server = network.server_at(host, port)
        if server is None:
            raise CallFailed(f"{place}: {REFUSED}", was_sent=False)
        return server


class HttpNetwork:
    """Who serves where."""

    def __init__(self, wires: Wires) -> None:
        self.wires = wires
        self.calls: dict[Call, None] = {}
        """Those under way, in their order."""
        self._servers: dict[tuple[str, int], SimulatedServer] = {}
        self._troubles: dict[str, ServerTrouble] = {}
        self._next_port = FIRST_PORT

    def trouble(self, name: str) -> ServerTrouble:
        return self._troubles.setdefault(name, ServerTrouble())

    def bound(self, loop: ProcessLoop, app: ASGIApp, port: int) -> SimulatedServer:
        if not port:
            self._next_port += 1
        return SimulatedServer(self, loop, app, loop.name, port or self._next_port)

    def listen(self, server: SimulatedServer) -> None:
        self._servers[server.host, server.port] = server

    def leave(self, server: SimulatedServer) -> None:
        if self._servers.get((server.host, server.port)) is server:
            del self._servers[server.host, server.port]

    def server_at(self, host: str, port: int) -> SimulatedServer | None:
        """Return who takes connections at an address."""
        trouble = self.trouble(host)
        is_refusing = self.wires.time.now < trouble.refuses_until and not trouble.refuses_with
        return None if is_refusing else self._servers.get((host, port))

    def arrived(self, call: Call) -> None:
        """A request has come to its server."""
        server, now = call.server, self.wires.time.now
        trouble = self.trouble(server.host)
        if server.loop.is_ended or self._servers.get((server.host, server.port)) is not server:
            call.break_off()
        elif now < trouble.refuses_until:
            body = msgspec.json.encode({"error": {"code": "unavailable", "message": "not now"}})
            call.answer(trouble.refuses_with or 503, body)
        elif now >= trouble.hangs_until:
            server.take(call)

    def close_all_of(self, loop: ProcessLoop) -> None:
        """A process has died: the system closes its connections."""
        for server in [server for server in self._servers.values() if server.loop is loop]:
            self.leave(server)
        self._break(lambda call: loop in (call.source, call.server.loop))

    def reset(self, one: str, other: str) -> None:
        """Break the connections between two processes."""
        self._break(lambda call: {call.source.name, call.server.host} == {one, other})

    def _break(self, is_meant: Callable[[Call], bool]) -> None:
        for call in [call for call in self.calls if is_meant(call)]:
            call.break_off()
