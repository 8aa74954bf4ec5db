"""ROUTER and DEALER as ZeroMQ has them, between simulated processes.

A dealer connects again by itself and keeps what it could not send yet. A router knows its peers
by their identities, refuses to send to one that is not there, and lets a newcomer take over an
identity. What was on its way when a connection broke is lost. Queues have an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from shunter.net.transport import MESSAGES_AT_ONCE, LoopSocket, Receive
from shunter.testing.simulation.links import Channel, Frames, Wires
from shunter.testing.simulation.loop import ProcessLoop

RECONNECT_SECONDS = 0.05
MAX_RECONNECT_SECONDS = 1.0
HIGH_WATER_MARK = 10_000
MONITORED = ":5561"
"""The port of backends."""


class WireTap(Protocol):
    """Hears what dealers send and what they get."""

    def sent_up(self, peer: bytes, frames: Frames) -> None: ...

    def came_down(self, peer: bytes, frames: Frames) -> None: ...


class SimulatedSocket(LoopSocket):
    """What both kinds share: a line of messages that have arrived."""

    cut_off = 0

    def __init__(self, network: ZmqNetwork, loop: ProcessLoop, receive: Receive) -> None:
        self.loop = loop
        self.is_closed = False
        self.inbox: deque[list[bytes]] = deque()
        self._network = network
        self._receive = receive
        self._is_paused = False
        self._will_drain = False

    def has_room(self, peer: bytes) -> bool:
        return True

    def was_rejected(self) -> bool:
        return False

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._look_again()

    def deliver(self, frames: list[bytes]) -> None:
        if not self.is_closed:
            self.inbox.append(frames)
            self._look_again()

    def _look_again(self) -> None:
        if not self._will_drain:
            self._will_drain = True
            self.loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._will_drain = False
        if self._is_paused or self.is_closed:
            return
        batch = [self.inbox.popleft() for _ in range(min(len(self.inbox), MESSAGES_AT_ONCE))]
        if self.inbox:
            self._look_again()
        if batch:
            self._receive(batch)


class Pipe:
    """One connection."""

    def __init__(self, wires: Wires, dealer: DealerSocket, router: RouterSocket) -> None:
        self.dealer, self.router = dealer, router
        here, there = dealer.loop.name, router.loop.name
        self.up = Channel(wires, wires.between(here, there), self._at_router, self._dealer_left)
        self.down = Channel(wires, wires.between(there, here), self._at_dealer, self._router_left)

    def send_up(self, frames: Frames) -> None:
        if (monitor := self.router.monitor) is not None:
            monitor.sent_up(self.dealer.identity, frames)
        self.up.send(frames)

    def _at_router(self, frames: Frames) -> None:
        self.router.deliver([self.dealer.identity, *frames])

    def _at_dealer(self, frames: Frames) -> None:
        if (monitor := self.router.monitor) is not None:
            monitor.came_down(self.dealer.identity, frames)
        self.dealer.deliver(list(frames))

    def _dealer_left(self) -> None:
        self.kill()

    def _router_left(self) -> None:
        self.kill()

    def kill(self) -> None:
        """Break it: nothing arrives any more, and both ends know."""
        self.up.kill()
        self.down.kill()
        self.router.lost(self)
        self.dealer.lost(self)


class RouterSocket(SimulatedSocket):
    """Bound to an address."""

    def __init__(
        self,
        network: ZmqNetwork,
        loop: ProcessLoop,
        receive: Receive,
        address: str,
        *,
        high_water_mark: int,
    ) -> None:
        super().__init__(network, loop, receive)
        self.address = address
        self.peers: dict[bytes, Pipe] = {}
        self.monitor = network.monitor if address.endswith(MONITORED) else None
        self._high_water_mark = high_water_mark

    def admit(self, pipe: Pipe) -> None:
        if old := self.peers.get(pipe.dealer.identity):
            old.kill()
        self.peers[pipe.dealer.identity] = pipe

    def lost(self, pipe: Pipe) -> None:
        if self.peers.get(pipe.dealer.identity) is pipe:
            del self.peers[pipe.dealer.identity]

    def send(self, frames: Sequence[bytes]) -> bool:
        pipe = self.peers.get(frames[0])
        if self.is_closed or self.loop.is_ended or pipe is None:
            return False
        if len(pipe.down) + len(pipe.dealer.inbox) >= self._high_water_mark:
            return False
        pipe.down.send(frames[1:])
        return True

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._network.unbind(self)
            for pipe in list(self.peers.values()):
                pipe.up.kill()
                pipe.down.close()
            self.peers.clear()


class DealerSocket(SimulatedSocket):
    """Connected to an address, whether somebody is there or not."""

    def __init__(
        self,
        network: ZmqNetwork,
        loop: ProcessLoop,
        receive: Receive,
        address: str,
        *,
        identity: bytes,
    ) -> None:
        super().__init__(network, loop, receive)
        self.address = address
        self.identity = identity
        self._pipe: Pipe | None = None
        self._queued: deque[Frames] = deque()
        self._pause = RECONNECT_SECONDS
        self._connect_in(0.0)

    def send(self, frames: Sequence[bytes]) -> bool:
        if self.is_closed or self.loop.is_ended:
            return False
        if self._pipe is None:
            if len(self._queued) >= HIGH_WATER_MARK:
                return False
            self._queued.append(frames)
            return True
        if len(self._pipe.up) + len(self._pipe.router.inbox) >= HIGH_WATER_MARK:
            return False
        self._pipe.send_up(frames)
        return True

    def lost(self, pipe: Pipe) -> None:
        if self._pipe is pipe:
            self._pipe = None
            if not self.is_closed:
                self._pause = RECONNECT_SECONDS
                self._connect_in(self._pause)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._queued.clear()
            if self._pipe is not None:
                pipe, self._pipe = self._pipe, None
                pipe.down.kill()
                pipe.up.close()

    def _connect_in(self, seconds: float) -> None:
        wires = self._network.wires
        wires.time.at(wires.time.now + seconds + 0.001, self._connect)

    def _connect(self) -> None:
        if self.is_closed or self._pipe is not None or self.loop.is_ended:
            return
        router = self._network.listener(self.address)
        is_there = router is not None and not router.loop.is_frozen and not self.loop.is_frozen
        if (
            router is None
            or not is_there
            or not self._network.wires.is_open(self.loop.name, router.loop.name)
        ):
            self._connect_in(self._pause)
            self._pause = min(2 * self._pause, MAX_RECONNECT_SECONDS)
            return
        self._pipe = Pipe(self._network.wires, self, router)
        router.admit(self._pipe)
        while self._queued:
            self._pipe.send_up(self._queued.popleft())


class ZmqNetwork:
    """Who listens where."""

    def __init__(self, wires: Wires) -> None:
        self.wires = wires
        self.monitor: WireTap | None = None
        self._routers: dict[str, RouterSocket] = {}
        self._sockets: dict[ProcessLoop, list[SimulatedSocket]] = {}

    def bind(
        self, loop: ProcessLoop, address: str, receive: Receive, *, high_water_mark: int
    ) -> RouterSocket:
        assert address not in self._routers, f"{address} is taken"
        router = RouterSocket(self, loop, receive, address, high_water_mark=high_water_mark)
        self._routers[address] = router
        self._sockets.setdefault(loop, []).append(router)
        return router

    def connect(
        self, loop: ProcessLoop, address: str, receive: Receive, *, identity: bytes
    ) -> DealerSocket:
        dealer = DealerSocket(self, loop, receive, address, identity=identity)
        mine = self._sockets.setdefault(loop, [])
        mine[:] = [socket for socket in mine if not socket.is_closed]
        mine.append(dealer)
        return dealer

    def listener(self, address: str) -> RouterSocket | None:
        return self._routers.get(address)

    def unbind(self, router: RouterSocket) -> None:
        if self._routers.get(router.address) is router:
            del self._routers[router.address]

    def close_all_of(self, loop: ProcessLoop) -> None:
        """A process has died: the system closes its sockets."""
        for socket in self._sockets.pop(loop, []):
            socket.close()

    def reset(self, one: str, other: str) -> None:
        """Break the connections between two processes."""
        for router in list(self._routers.values()):
            for pipe in list(router.peers.values()):
                if {router.loop.name, pipe.dealer.loop.name} == {one, other}:
                    pipe.kill()

    def most_waiting(self) -> int:
        """Return how many messages wait in the longest queue."""
        return max(
            (len(socket.inbox) for mine in self._sockets.values() for socket in mine), default=0
        )
