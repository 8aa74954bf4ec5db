"""A client's conversation with whichever dispatcher answers.

It is connected to all of them, since whichever ends a job pushes its result, and asks one of them
at a time. A request that is not answered in a while is sent again, to the next address if there
is one: every request may be repeated without harm, since jobs are named by their sender. Knows
messages and sockets, nothing of handles.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from shunter.environment import REAL, Environment
from shunter.errors import ProtocolError, ShunterError, StoreUnavailable, Unreachable
from shunter.transport import LoopSocket
from shunter.wire import frames
from shunter.wire.frames import Full, full
from shunter.wire.messages import (
    Accepted,
    Fetched,
    JobsListed,
    Kind,
    Message,
    Outcome,
    Outcomes,
    Refusal,
    RefusalCode,
    Standing,
    WorkersListed,
    decode,
)

Answer = Accepted | Fetched | JobsListed | WorkersListed | Standing

_ANSWERS: dict[Kind, type[Answer]] = {
    Kind.ACCEPTED: Accepted,
    Kind.FETCH: Fetched,
    Kind.LIST: JobsListed,
    Kind.WORKERS: WorkersListed,
    Kind.STATUS: Standing,
}


class _Question(Struct):
    frames: list[bytes]
    answer: asyncio.Future[Answer]
    sent_at: float
    store_fault: str = ""
    """Why it could not be done when it was asked last; empty where nothing was heard."""


class Session:
    """Questions and answers over a connection that comes back by itself."""

    RESEND_SECONDS = 1.0

    def __init__(
        self,
        addresses: tuple[str, ...],
        *,
        timeout: float,
        on_outcomes: Callable[[tuple[Outcome, ...]], None],
        environment: Environment = REAL,
    ) -> None:
        self._environment = environment
        self.addresses = addresses
        self.heard_at = 0.0
        self.unserved: tuple[str, ...] = ()
        self._timeout = timeout
        self._on_outcomes = on_outcomes
        self._identity = b"c-" + environment.token_bytes(12)
        self._context = environment.zmq_context()
        self._turn = 0
        self._last = 0
        self._questions: dict[int, _Question] = {}
        self._sockets: list[LoopSocket] = []

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
            full(kind, body(number)), asyncio.get_running_loop().create_future(), now
        )
        self._questions[number] = question
        self._send(question)
        try:
            return await self._wait(question, started=now)
        finally:
            del self._questions[number]

    async def _wait(self, question: _Question, *, started: float) -> Answer:
        while True:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(question.answer), self.RESEND_SECONDS)
            now = self._environment.monotonic()
            if now - started >= self._timeout:
                raise self._given_up(question)
            if question.store_fault:
                self._turn += 1  # another dispatcher may fare better
                self._send(question)
            elif now - max(self.heard_at, question.sent_at) >= self.RESEND_SECONDS:
                self._move_on()

    def _given_up(self, question: _Question) -> Unreachable:
        where = ", ".join(self.addresses)
        if question.store_fault:
            return StoreUnavailable(where, self._timeout, question.store_fault)
        return Unreachable(where, self._timeout)

    @property
    def _place(self) -> int:
        """Which of the addresses is asked."""
        return self._turn % len(self.addresses)

    def _connected(self, place: int) -> LoopSocket:
        receive = partial(self._receive, place)
        return self._environment.connected_dealer(
            self._context, self.addresses[place], receive, identity=self._identity
        )

    def _move_on(self) -> None:
        """Connect to this dispatcher anew, turn to the next, and ask it all that is unanswered."""
        self._sockets[self._place].close()
        self._sockets[self._place] = self._connected(self._place)
        self._turn += 1
        for question in self._questions.values():
            question.store_fault = ""
            self._send(question)

    def _send(self, question: _Question) -> None:
        question.sent_at = self._environment.monotonic()
        self._sockets[self._place].send(question.frames)

    def _receive(self, place: int, batch: list[list[bytes]]) -> None:
        if place == self._place:
            self.heard_at = self._environment.monotonic()
        for message in batch:
            with contextlib.suppress(ProtocolError):
                match frames.read(message):
                    case Full(Kind.RESULTS, body):
                        self._on_outcomes(decode(body, Outcomes).outcomes)
                    case Full(Kind.ERROR, body):
                        self._refused(body)
                    case Full(kind, body) if kind in _ANSWERS:
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
                question.answer.set_exception(ShunterError(refusal.reason))
