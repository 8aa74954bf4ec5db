"""Large messages between a dispatcher and its workers, and which jobs are on their way in them.

A job that takes seconds to arrive is missing from its worker's heartbeats until then: it is not
lost. The memory of large results is free again when they are committed. Spec:
docs/spec/ping-pong.md, section 12.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import UNSENT_BYTES
from shunter.errors import ProtocolError
from shunter.model.report import Held, Report
from shunter.net.environment import REAL, Environment
from shunter.net.parted import Body, PartedMessages, Release
from shunter.wire.frames import DELIMITER
from shunter.wire.messages import Assignments, CancelOrders, Kind, Reports, decode, encode
from shunter.wire.parts import FLOOR_BYTES_PER_SECOND, WHOLE_BYTES, ByteBudget

INCOMING_BYTES = 32 * 1024 * 1024
"""How much of large results may be here, on its way or not yet committed."""

GATEWAY = "zmq"

UNANSWERED_SECONDS = 10.0
"""A worker that does not answer for so long gets no more of a large job."""


class LargeMessages:
    """All that is large between the dispatcher and the workers of one socket."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        send: Callable[[bytes, Sequence[bytes]], bool],
        worker_of: Callable[[bytes], str | None],
        take_reports: Callable[[str, Reports], None],
        *,
        max_bytes: int,
        environment: Environment = REAL,
    ) -> None:
        self._dispatcher = dispatcher
        self._send = send
        self._worker_of = worker_of
        self._take_reports = take_reports
        self._takes_parts: set[bytes] = set()
        self._is_clogged = False
        self._landing: dict[str, dict[Held, float]] = {}
        self._uncommitted: dict[tuple[str, int], tuple[int, Release]] = {}
        self._parts = PartedMessages(
            send,
            self._receive,
            budget=ByteBudget(INCOMING_BYTES),
            max_bytes=max_bytes,
            kinds=frozenset({Kind.RESULTS}),
            give_up_after=UNANSWERED_SECONDS,
            on_delivered=self._landed,
            environment=environment,
        )

    def tick(self) -> None:
        """Let time pass, and free the memory of reports that were confirmed to nobody."""
        turns = self._dispatcher.turns
        for name in [name for name, (turn, _) in self._uncommitted.items() if turn <= turns]:
            self._release(name)
        self._parts.tick()
        self._tell_clogged()

    def joined(self, identity: bytes, *, takes_parts: bool) -> None:
        """Note what a worker that says READY can do."""
        if takes_parts:
            self._takes_parts.add(identity)

    def left(self, worker_id: str, identity: bytes) -> None:
        """Forget a worker's old connection, and what was on its way there."""
        self._takes_parts.discard(identity)
        self._landing.pop(worker_id, None)
        self._parts.forget(identity)
        self._tell_clogged()

    # ---- jobs

    def send_jobs(
        self, worker_id: str, identity: bytes, message: Assignments, held: tuple[Held, ...]
    ) -> bool:
        """Send jobs, in parts if they are large and the worker takes parts."""
        body = encode(message)
        if len(body) > WHOLE_BYTES:
            if identity in self._takes_parts:
                is_sent = self._parts.send(Kind.JOBS, body, peer=identity, key=held)
                self._tell_clogged()
                return is_sent
            self._expect(worker_id, held, len(body))
        return self._send(identity, [DELIMITER, Kind.JOBS.value.encode(), body])

    def send_cancels(self, identity: bytes, jobs: Sequence[Held]) -> None:
        """Send cancels behind a job that is on its way: until it is there, nobody can stop it."""
        self._parts.send(Kind.CANCEL, encode(CancelOrders(tuple(jobs))), peer=identity)

    def on_their_way(self, worker_id: str, identity: bytes, held: Iterable[Held]) -> list[Held]:
        """Return large jobs that the worker can't have yet, though they were sent.

        `held` is what it has, by its own words.
        """
        if landing := self._landing.get(worker_id):
            now, there = self._dispatcher.now(), frozenset(held)
            for job in [job for job, until in landing.items() if until <= now or job in there]:
                del landing[job]
        keys = self._parts.keys(identity)
        return [*(landing or ()), *(job for key in keys if isinstance(key, tuple) for job in key)]

    def _landed(self, identity: bytes, key: Hashable) -> None:
        worker_id = self._worker_of(identity)
        if isinstance(key, tuple) and worker_id is not None:
            self._expect(worker_id, key, 0)

    def _expect(self, worker_id: str, jobs: Sequence[Held], size: int) -> None:
        """Do not take jobs for lost until the worker must have them and has said so."""
        seconds = self._dispatcher.rules.forgotten_after + size / FLOOR_BYTES_PER_SECOND
        until = self._dispatcher.now() + seconds
        self._landing.setdefault(worker_id, {}).update(dict.fromkeys(jobs, until))

    # ---- results

    def take(self, identity: bytes, kind: Kind, body: Body) -> None:
        """Take a message about parts."""
        self._parts.take(kind, body, peer=identity)
        self._tell_clogged()

    def _tell_clogged(self) -> None:
        """Say when so much waits to be sent that no more should come, and when that is over."""
        is_clogged = self._parts.outgoing_size >= UNSENT_BYTES
        if is_clogged != self._is_clogged:
            self._is_clogged = is_clogged
            self._dispatcher.clog(GATEWAY, is_clogged)

    def reported(self, worker_id: str, reports: Sequence[Report]) -> None:
        """Note that jobs have ended: they must have arrived."""
        if landing := self._landing.get(worker_id):
            for report in reports:
                landing.pop(Held(report.job_id, report.attempt), None)

    def taken(self, worker_id: str, batches: Sequence[int]) -> None:
        """Note that batches of reports are committed."""
        for batch in batches if self._uncommitted else ():
            self._release((worker_id, batch))

    def _receive(self, identity: bytes, _: Kind, body: Body, release: Release) -> None:
        """Take large results. Their window is not looked at: newer ones have overtaken it."""
        worker_id = self._worker_of(identity)
        try:
            reports = decode(body, Reports)
        except ProtocolError:
            release()
            raise
        if worker_id is None:
            release()
            return
        self._release((worker_id, reports.batch))
        # The turn that is under way does not have them any more, the next one does.
        self._uncommitted[worker_id, reports.batch] = (self._dispatcher.turns + 2, release)
        self._take_reports(worker_id, reports)

    def _release(self, name: tuple[str, int]) -> None:
        if committed := self._uncommitted.pop(name, None):
            committed[1]()
