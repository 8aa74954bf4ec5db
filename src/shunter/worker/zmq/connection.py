"""One worker's connection to one dispatcher: a DEALER socket and the watch over it.

Sends, receives, and opens itself anew when the dispatcher has been silent for too long. Large
messages go and come in parts, so that heartbeats never wait behind them. What messages mean is
the host's business. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from shunter.errors import ProtocolError
from shunter.model.key import CurvePair
from shunter.net.environment import REAL, Environment
from shunter.net.parted import PART_KINDS, Body, PartedMessages, Release
from shunter.net.transport import LoopSocket, ZmqContext
from shunter.wire import frames
from shunter.wire.frames import Full, full
from shunter.wire.messages import Hello, Kind, Message, Reports
from shunter.wire.parts import WHOLE_BYTES, ByteBudget
from shunter.wire.pingpong import BrokerWatch, Reopen, SendPing
from shunter.worker.zmq.account import Account

INCOMING_BYTES = 64 * 1024 * 1024
MAX_INCOMING_BYTES = 1 << 30

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""How large a message may be that comes in one piece: what has more than WHOLE_BYTES comes in
parts, beside lists of ids."""


class Connection:
    """A dispatcher, as a worker sees it."""

    def __init__(
        self,
        context: ZmqContext,
        address: str,
        watch: BrokerWatch,
        account: Account,
        *,
        on_open: Callable[[Connection], None],
        on_loss: Callable[[Connection], None],
        on_message: Callable[[Connection, Kind, Body], None],
        on_fault: Callable[[Connection, str], None],
        jitter: Callable[[], float],
        curve: CurvePair | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._curve = curve
        self._environment = environment
        self.address = address
        self.is_alive = False
        self.store = ""
        self.account = account
        self._context = context
        self._watch = watch
        self._on_open = on_open
        self._on_loss = on_loss
        self._on_message = on_message
        self._on_fault = on_fault
        self._jitter = jitter
        self._socket: LoopSocket | None = None
        self._open_at = 0.0
        self._parts = self._no_parts()

    @property
    def heard_at(self) -> float:
        """When the dispatcher last spoke."""
        return self._watch.heard_at

    def tick(self, fellow_heard_at: float) -> bool:
        """Let time pass; True where it is time for a heartbeat.

        A fellow is another dispatcher over the same store.
        """
        now = self._environment.monotonic()
        if self._socket is None:
            if now >= self._open_at:
                self._open(now)
            return False
        self._parts.tick()
        for effect in self._watch.tick(now=now, fellow_heard_at=fellow_heard_at):
            match effect:
                case SendPing():
                    return True
                case Reopen(silent_for):
                    self._on_fault(self, f"silent for {silent_for:.1f} s; opening a new socket")
                    self.reopen()
        return False

    def send(self, kind: Kind, body: Message) -> bool:
        """Send a message; False where it could not even be queued."""
        if self._socket is None:
            return False
        if isinstance(body, Hello):
            body = replace(body, parts=True)
        if isinstance(body, Reports):
            return self._send_reports(body)
        return self._socket.send(full(kind, body))

    def _send_reports(self, reports: Reports) -> bool:
        """Send reports, in parts if they are large; those that are on their way need no more."""
        sender = self._parts.sender()
        if sender is not None and reports.batch in sender:
            return True
        message = full(Kind.RESULTS, reports)
        if len(message[-1]) > WHOLE_BYTES:
            return self._parts.send(Kind.RESULTS, message[-1], key=reports.batch)
        return self._send_frames(b"", message)

    def _send_frames(self, _: bytes, message: Sequence[bytes]) -> bool:
        return self._socket is not None and self._socket.send(message)

    def reopen(self) -> None:
        """Open a new socket: whatever is still on its way on the old one never arrives."""
        self.close()
        self._on_loss(self)
        self._open_at = self._environment.monotonic() + self._jitter()

    def close(self) -> None:
        self.is_alive = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self, now: float) -> None:
        identity = b"w-" + self._environment.token_bytes(12)
        self._socket = self._environment.connected_dealer(
            self._context,
            self.address,
            self._receive,
            identity=identity,
            max_message_bytes=MAX_MESSAGE_BYTES,
            curve=self._curve,
        )
        self._parts = self._no_parts()
        self._watch.opened(now=now)
        self._on_open(self)

    def _no_parts(self) -> PartedMessages:
        """Begin with nothing on its way in either direction."""
        return PartedMessages(
            self._send_frames,
            self._receive_parted,
            budget=ByteBudget(INCOMING_BYTES),
            max_bytes=MAX_INCOMING_BYTES,
            kinds=frozenset({Kind.JOBS}),
            environment=self._environment,
        )

    def _receive_parted(self, _: bytes, kind: Kind, body: Body, release: Release) -> None:
        try:
            self._on_message(self, kind, body)
        finally:
            release()

    def _receive(self, batch: list[list[bytes]]) -> None:
        self._watch.heard(now=self._environment.monotonic())
        for message in batch:
            try:
                match frames.read(message):
                    case Full(kind, body) if kind in PART_KINDS:
                        self._parts.take(kind, body)
                    case Full(kind, body):
                        self.is_alive = self.is_alive or kind is Kind.PONG
                        self._on_message(self, kind, body)
                    case _:
                        raise ProtocolError("a plain message to a worker of the full level")
            except ProtocolError as error:
                self._on_fault(self, str(error))
