"""The PING/PONG dialogue: both peers, without a socket or a clock.

`BrokerWatch` is the worker's side: when to PING, when to give the connection up.
`PlainWorkers` is the broker's side for workers that know only the plain level: who is in the
ready queue, who is busy, whose job is lost. A shell feeds them what arrives and performs the
effects they return, in order. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from shunter.model.report import Held
from shunter.wire.frames import PING, READY
from shunter.wire.parts import FLOOR_BYTES_PER_SECOND, WHOLE_BYTES

# ---- the worker's side


class SendReady(Struct, frozen=True):
    """Say READY on a connection that has just been opened."""


class SendPing(Struct, frozen=True):
    """Say PING."""


class Reopen(Struct, frozen=True):
    """Close the socket, open a new one, and say READY on it."""

    silent_for: float


class BrokerWatch:
    """A worker's view of one broker."""

    def __init__(self, *, broker_timeout: float, n_timeouts: int, ping_every: float = 1.0) -> None:
        self._lost_after = broker_timeout * n_timeouts
        self._missed_after = ping_every + broker_timeout
        self._ping_every = ping_every
        self._pinged_at = 0.0
        self.heard_at = 0.0

    def opened(self, *, now: float) -> list[SendReady]:
        self.heard_at = self._pinged_at = now
        return [SendReady()]

    def heard(self, *, now: float) -> None:
        """Any message from the broker shows that it lives."""
        self.heard_at = now

    def tick(self, *, now: float, fellow_heard_at: float = 0.0) -> list[SendPing | Reopen]:
        """Let time pass; a fellow is another broker that can do all that this one does.

        One unanswered PING is enough where a fellow has spoken since then: it is not the
        worker that is cut off, nor the store that is slow.
        """
        silent_for = now - self.heard_at
        is_outlived = fellow_heard_at - self.heard_at >= self._ping_every
        is_missed = is_outlived and silent_for >= self._missed_after
        if is_missed or silent_for >= self._lost_after:
            return [Reopen(silent_for)]
        if now - self._pinged_at >= self._ping_every:
            self._pinged_at = now
            return [SendPing()]
        return []


# ---- the broker's side, plain level


class SendPong(Struct, frozen=True):
    worker: bytes


class JoinedQueue(Struct, frozen=True):
    """The worker was put into the ready queue: it may be given a job."""

    worker: bytes


class LeftQueue(Struct, frozen=True):
    """The worker was silent for too long and is out of the ready queue."""

    worker: bytes


class ResultArrived(Struct, frozen=True):
    worker: bytes
    job: Held
    result: bytes


class JobForgotten(Struct, frozen=True):
    """The worker shows itself idle, so it no longer has the job we gave it."""

    worker: bytes
    job: Held
    reason: str


class UnexpectedResultArrived(Struct, frozen=True):
    """A result from a worker that, as far as we know, has no job."""

    worker: bytes
    result: bytes


Effect: TypeAlias = (
    SendPong | JoinedQueue | LeftQueue | ResultArrived | JobForgotten | UnexpectedResultArrived
)


class _State(Enum):
    READY = "in the ready queue"
    BUSY = "working"
    DOUBTFUL = "its PING may have crossed our job, so it may be working after all"


class _PlainWorker:
    __slots__ = ("arrives_by", "expires_at", "job", "sent_at", "state")

    def __init__(self) -> None:
        self.state = _State.READY
        self.expires_at = 0.0
        self.job: Held | None = None
        self.sent_at = 0.0
        self.arrives_by = 0.0


class PlainWorkers:
    """All plain workers of one broker.

    A PING that arrives right after a job was sent may have left the worker before the job
    reached it. The job is queued again all the same, since a second run does no harm, but the
    worker gets nothing new until it speaks once more: a result it sends now could not be told
    from the result of a second job. A large job may be on its way for a long time, and a PING
    says nothing about it until then.
    """

    CROSSING = 0.08
    """A PING this soon after a job, in seconds, may have crossed it on the way."""

    def __init__(self, *, expire_after: float) -> None:
        self._expire_after = expire_after
        self._workers: OrderedDict[bytes, _PlainWorker] = OrderedDict()

    def received(self, worker: bytes, body: bytes, *, now: float) -> list[Effect]:
        """Take a plain message from a worker."""
        known = self._workers.get(worker)
        if body in (READY, PING):
            return [*self._shown_idle(worker, known, body, now), SendPong(worker)]
        if known is None:
            return [UnexpectedResultArrived(worker, body)]
        if known.state is _State.READY:
            self._renew(known, now)
            return [UnexpectedResultArrived(worker, body)]
        arrived: Effect = UnexpectedResultArrived(worker, body)
        if known.state is _State.BUSY and known.job is not None:
            arrived = ResultArrived(worker, known.job, body)
        return [arrived, *self._join(worker, known, now)]

    def sent(self, worker: bytes, job: Held, *, now: float, size: int = 0) -> None:
        """Pop the worker from the ready queue: it has been sent a job of this many bytes."""
        if known := self._workers.get(worker):
            known.state, known.job, known.sent_at = _State.BUSY, job, now
            is_large = size > WHOLE_BYTES
            known.arrives_by = now + size / FLOOR_BYTES_PER_SECOND if is_large else now

    def unsent(self, worker: bytes) -> None:
        """Note that the job could not be sent: the worker is not there any more."""
        self._workers.pop(worker, None)

    def gave_up(self, worker: bytes, job: Held) -> bool:
        """Note that the job was taken away; True where the worker had it and is now unknown."""
        known = self._workers.get(worker)
        if known is None or known.state is not _State.BUSY or known.job != job:
            return False
        del self._workers[worker]
        return True

    def is_ready(self, worker: bytes) -> bool:
        """True if the worker is in the ready queue."""
        known = self._workers.get(worker)
        return known is not None and known.state is _State.READY

    def present(self) -> Iterator[bytes]:
        """Yield all workers that are ready or busy."""
        return iter(self._workers)

    def tick(self, *, now: float) -> list[Effect]:
        """Drop those from the ready queue that were silent for too long."""
        silent = [
            worker
            for worker, known in self._workers.items()
            if known.state is _State.READY and known.expires_at <= now
        ]
        for worker in silent:
            del self._workers[worker]
        return [LeftQueue(worker) for worker in silent]

    def _shown_idle(
        self, worker: bytes, known: _PlainWorker | None, body: bytes, now: float
    ) -> list[Effect]:
        if known is None:
            known = self._workers[worker] = _PlainWorker()
            return self._join(worker, known, now)
        if known.state is _State.READY:
            self._renew(known, now)
            return []
        if known.state is _State.DOUBTFUL:
            return self._join(worker, known, now)
        if body == PING and now < known.arrives_by:
            return []
        assert known.job is not None
        forgotten = JobForgotten(worker, known.job, f"worker said {body.decode()} while busy")
        if body == PING and now - known.sent_at < self.CROSSING:
            known.state = _State.DOUBTFUL
            return [forgotten]
        return [forgotten, *self._join(worker, known, now)]

    def _join(self, worker: bytes, known: _PlainWorker, now: float) -> list[Effect]:
        known.state, known.job = _State.READY, None
        self._renew(known, now)
        self._workers.move_to_end(worker)
        return [JoinedQueue(worker)]

    def _renew(self, known: _PlainWorker, now: float) -> None:
        known.expires_at = now + self._expire_after
