"""A client's conversation with whichever dispatcher answers.

It is connected to all of them, since whichever ends a job pushes its result, and asks one of them
at a time. A request that is not answered in a while is sent again, to the next address if there
is one: every request may be repeated without harm, since jobs are named by their sender. Large
requests and answers go in parts. How long is a while depends on how many bytes are on their way,
and on whether it was long enough last time. Knows messages and sockets, nothing of handles.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol

from msgspec import Struct

from shunter.errors import (
    Forbidden,
    KeyRejected,
    ProtocolError,
    ShunterError,
    StoreUnavailable,
    Unreachable,
)
from shunter.model.key import CurvePair
from shunter.model.retry import Retry, backoff
from shunter.net.environment import REAL, Environment
from shunter.net.parted import PART_KINDS, Body, PartedMessages, Release
from shunter.net.transport import LoopSocket
from shunter.wire import frames
from shunter.wire.frames import Full, full
from shunter.wire.messages import (
    Accepted,
    Busy,
    Fetched,
    JobsListed,
    JournalShown,
    Kind,
    LimitsShown,
    Message,
    Outcome,
    Outcomes,
    PausesListed,
    Refusal,
    RefusalCode,
    RunsListed,
    SchedulesListed,
    Standing,
    WhyShown,
    WorkersListed,
    decode,
)
from shunter.wire.parts import WHOLE_BYTES, ByteBudget

Answer = (
    Accepted
    | Fetched
    | JobsListed
    | WorkersListed
    | Standing
    | PausesListed
    | SchedulesListed
    | LimitsShown
    | JournalShown
    | WhyShown
    | RunsListed
)

_ANSWERS: dict[Kind, type[Answer]] = {
    Kind.ACCEPTED: Accepted,
    Kind.FETCH: Fetched,
    Kind.LIST: JobsListed,
    Kind.WORKERS: WorkersListed,
    Kind.STATUS: Standing,
    Kind.PAUSES: PausesListed,
    Kind.SCHEDULES: SchedulesListed,
    Kind.JOURNAL: JournalShown,
    Kind.WHY: WhyShown,
    Kind.RUNS: RunsListed,
    Kind.LIMITS: LimitsShown,
    Kind.SET_LIMITS: LimitsShown,
}


INCOMING_BYTES = 64 * 1024 * 1024
MAX_INCOMING_BYTES = 1 << 30

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""How large an answer may be that comes in one piece: lists of workers, and counts by type."""


class DispatcherSession(Protocol):
    """What a client talks to: dispatchers somewhere, or a sandbox that answers for one."""

    addresses: tuple[str, ...]
    unserved: tuple[str, ...]
    similar: dict[str, str]

    async def ask(self, kind: Kind, body: Callable[[int], Message]) -> Answer:
        """Send a request and return its answer."""
        ...

    def close(self) -> None: ...


OpenSession = Callable[..., DispatcherSession]


class _Question(Struct):
    """A request; `delivered` is how many bytes of it the dispatcher has, or may have by now."""

    number: int
    frames: list[bytes]
    answer: asyncio.Future[Answer | None]
    sent_at: float
    store_fault: str = ""
    """Why it could not be done when it was asked last; empty where nothing was heard."""
    delivered: int = 0
    again_at: float | None = None

    @property
    def kind(self) -> Kind:
        return Kind(self.frames[1].decode())

    @property
    def is_large(self) -> bool:
        return len(self.frames[-1]) > WHOLE_BYTES

    def look_up(self) -> None:
        """Let who waits for the answer see what to do without one."""
        if not self.answer.done():
            self.answer.set_result(None)


class Session:
    """Questions and answers over a connection that comes back by itself."""

    RESEND_SECONDS = 1.0
    RESENDS = Retry(delay=RESEND_SECONDS, max_delay=8.0)
    BYTES_PER_SECOND = 1_000_000
    """How fast a dispatcher is expected to take in what was sent to it."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        *,
        timeout: float,
        on_outcomes: Callable[[tuple[Outcome, ...]], None],
        curve: CurvePair | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._curve = curve
        self._environment = environment
        self.addresses = addresses
        self.heard_at = 0.0
        self.unserved: tuple[str, ...] = ()
        self.similar: dict[str, str] = {}
        self._timeout = timeout
        self._on_outcomes = on_outcomes
        self._identity = b"c-" + environment.token_bytes(12)
        self._context = environment.zmq_context()
        self._turn = 0
        self._last = 0
        self._delivered_at = 0.0
        self._misses = 0
        self._questions: dict[int, _Question] = {}
        self._sockets: list[LoopSocket] = []
        self._parts = [self._no_parts(place) for place in range(len(addresses))]

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()
        self._sockets.clear()
        self._context.term()

    async def ask(self, kind: Kind, body: Callable[[int], Message]) -> Answer:
        """Send a request, again and elsewhere if need be, and return its answer."""
        if not self._sockets:
            self._sockets = [self._connected(place) for place in range(len(self.addresses))]
        self._last += 1
        number, now = self._last, self._environment.monotonic()
        question = _Question(
            number, full(kind, body(number)), asyncio.get_running_loop().create_future(), now
        )
        self._questions[number] = question
        self._send(question)
        try:
            return await self._wait(question, started=now)
        finally:
            del self._questions[number]

    async def _wait(self, question: _Question, *, started: float) -> Answer:
        loop = asyncio.get_running_loop()
        while True:
            timer = loop.call_later(self.RESEND_SECONDS, question.look_up)
            try:
                if (answer := await question.answer) is not None:
                    return answer
            finally:
                timer.cancel()
            question.answer = loop.create_future()
            now = self._environment.monotonic()
            self._parts[self._place].tick()
            sender = self._parts[self._place].sender()
            # A large question makes progress, or is told to wait, as long as its way is heard of.
            heard_at = max(sender.heard_at, sender.quiet_until) if sender else 0.0
            if now - max(started, heard_at, self._delivered_at) >= self._timeout:
                raise self._given_up(question)
            if question.again_at is not None and now >= question.again_at:
                self._send(question)
            if question.store_fault:
                self._turn += 1  # another dispatcher may fare better
                self._send(question)
            elif now - max(self.heard_at, question.sent_at, heard_at) >= self._patience():
                self._move_on()

    def _reconnect(self) -> None:
        """Begin anew: ZeroMQ does not come back by itself to who has rejected us."""
        for socket in self._sockets:
            socket.close()
        self._sockets = [self._connected(place) for place in range(len(self.addresses))]

    def _given_up(self, question: _Question) -> Unreachable:
        where = ", ".join(self.addresses)
        if question.store_fault:
            return StoreUnavailable(where, self._timeout, question.store_fault)
        rejections = [socket.was_rejected() for socket in self._sockets]
        if any(rejections) and not self.heard_at:
            self._reconnect()
            return KeyRejected(where, self._timeout, has_key=self._curve is not None)
        return Unreachable(where, self._timeout)

    def _patience(self) -> float:
        """How long the dispatcher may be silent: longer if much is under way, or was in vain."""
        sender = self._parts[self._place].sender()
        under_way = sum(question.delivered for question in self._questions.values())
        under_way += sender.unacknowledged if sender else 0
        seconds = backoff(self.RESENDS, self._misses + 1, jitter=0.0)
        return seconds + under_way / self.BYTES_PER_SECOND

    @property
    def _place(self) -> int:
        """Which of the addresses is asked."""
        return self._turn % len(self.addresses)

    def _connected(self, place: int) -> LoopSocket:
        receive = partial(self._receive, place)
        return self._environment.connected_dealer(
            self._context,
            self.addresses[place],
            receive,
            identity=self._identity,
            max_message_bytes=MAX_MESSAGE_BYTES,
            curve=self._curve,
        )

    def _no_parts(self, place: int) -> PartedMessages:
        """Begin with nothing on its way in either direction."""
        return PartedMessages(
            lambda _, message: self._sockets[place].send(message),
            self._receive_parted,
            budget=ByteBudget(INCOMING_BYTES),
            max_bytes=MAX_INCOMING_BYTES,
            kinds=frozenset({Kind.RESULTS, Kind.FETCH, Kind.LIST}),
            on_delivered=self._delivered,
            on_undelivered=self._not_taken,
            environment=self._environment,
        )

    def _move_on(self) -> None:
        """Connect to this dispatcher anew, turn to the next, and ask it all that is unanswered."""
        self._sockets[self._place].close()
        self._sockets[self._place] = self._connected(self._place)
        self._parts[self._place] = self._no_parts(self._place)
        self._turn += 1
        self._misses += 1
        for question in self._questions.values():
            question.store_fault = ""
            self._send(question)

    def _send(self, question: _Question) -> None:
        question.sent_at, question.again_at = self._environment.monotonic(), None
        if question.is_large:
            question.delivered = 0
            parts = self._parts[self._place]
            parts.send(question.kind, question.frames[-1], key=question.number)
        else:
            question.delivered = len(question.frames[-1])
            self._sockets[self._place].send(question.frames)

    def _delivered(self, _: bytes, key: Hashable) -> None:
        assert isinstance(key, int)
        if question := self._questions.get(key):
            question.delivered = len(question.frames[-1])
            question.sent_at = self._delivered_at = self._environment.monotonic()

    def _not_taken(self, _: bytes, key: Hashable, reason: str) -> None:
        assert isinstance(key, int)
        question = self._questions.get(key)
        if question is not None and not question.answer.done():
            question.answer.set_exception(ShunterError(reason))

    def _receive(self, place: int, batch: list[list[bytes]]) -> None:
        if place == self._place:
            self.heard_at = self._environment.monotonic()
            self._misses = 0
        for message in batch:
            with contextlib.suppress(ProtocolError):
                match frames.read(message):
                    case Full(kind, body) if kind in PART_KINDS:
                        self._parts[place].take(kind, body)
                    case Full(kind, body):
                        self._take(kind, body)

    def _receive_parted(self, _: bytes, kind: Kind, body: Body, release: Release) -> None:
        try:
            self._take(kind, body)
        finally:
            release()

    def _take(self, kind: Kind, body: Body) -> None:
        match kind:
            case Kind.RESULTS:
                self._on_outcomes(decode(body, Outcomes).outcomes)
            case Kind.ERROR:
                self._refused(bytes(body))
            case Kind.BUSY:
                busy = decode(body, Busy)
                if question := self._questions.get(busy.request):
                    question.again_at = self._environment.monotonic() + busy.retry_after
            case _ if kind in _ANSWERS:
                answer = decode(body, _ANSWERS[kind])
                question = self._questions.get(answer.request)
                if question is not None and not question.answer.done():
                    question.answer.set_result(answer)

    def _refused(self, body: bytes) -> None:
        try:
            refusal = decode(body, Refusal)
        except ProtocolError:
            refusal = Refusal(0, body.decode(errors="replace"))
        concerned = (
            [self._questions[refusal.request]]
            if refusal.request in self._questions
            else list(self._questions.values())
        )
        for question in concerned:
            if refusal.code is RefusalCode.STORE_FAILS:
                question.store_fault = refusal.reason  # it is sent again in a moment
            elif not question.answer.done():
                is_forbidden = refusal.code is RefusalCode.FORBIDDEN
                kind = Forbidden if is_forbidden else ShunterError
                question.answer.set_exception(kind(refusal.reason))
