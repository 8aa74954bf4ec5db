"""The clients' side of the ZeroMQ gateway: jobs in, results out, questions answered.

A plain client sends `["", job]` and gets `["", result]` or `["", "ERROR", reason]`; our own
client speaks the full level. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from shunter.dispatch.arrivals import Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.limit_changes import LIMITS_HOLD
from shunter.dispatch.pauses import pause, resume
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.errors import PauseRefused, ProtocolError, StoreError
from shunter.gateway.audit_log import AuditLog
from shunter.gateway.committed_jobs import submit_and_wait
from shunter.gateway.key_list import KeyList
from shunter.gateway.zmq.backend import PONG_IS_NO_JOB
from shunter.gateway.zmq.questions import Questions, memory_is_full
from shunter.gateway.zmq.schedule_line import ScheduleLine
from shunter.gateway.zmq.undelivered_results import UndeliveredResults
from shunter.model.job import DEFAULT_TYPE, Job, ReplyTo, Status
from shunter.model.journal import signal_fault
from shunter.model.key import Action, Key
from shunter.model.pause import key_fault
from shunter.model.scope import EVERYTHING, JobScope, scope_of
from shunter.model.spelling import similar
from shunter.model.submission import Receipt, Submission
from shunter.net.environment import REAL, Environment
from shunter.net.parted import PART_KINDS, Body, PartedMessages, Release
from shunter.net.transport import LoopSocket
from shunter.refusal_log import RefusalLog, peer_name
from shunter.wire import frames
from shunter.wire.batches import batches
from shunter.wire.frames import Full, Plain, bytes_of, document_of, full, plain_error
from shunter.wire.messages import (
    Accepted,
    Busy,
    Cancel,
    Kind,
    Outcome,
    Outcomes,
    PauseOrder,
    Refusal,
    RefusalCode,
    SetLimits,
    Signals,
    Submit,
    decode,
    request_of,
)
from shunter.wire.parts import WHOLE_BYTES, ByteBudget

FULL_GATEWAY = "zmq"
PLAIN_GATEWAY = "zmq-plain"

INCOMING_BYTES = 32 * 1024 * 1024
"""How much of large submissions may be here, on its way or not yet committed."""

WHOLE_INCOMING_BYTES = 8 * 1024 * 1024
"""How much may be here of submissions that came in one piece before reading stops."""

OUTGOING_BYTES = 32 * 1024 * 1024
"""How much of large results may wait for clients; what does not fit may be fetched."""

UNANSWERED_SECONDS = 10.0

MOST_SPELT = 4
"""For so many types that nobody serves a client hears which it may have meant."""

NEEDED = {
    Kind.CANCEL: Action.CANCEL,
    Kind.FETCH: Action.SEE_JOBS,
    Kind.LIST: Action.SEE_JOBS,
    Kind.GRANT: Action.SEE_JOBS,
    Kind.DECLINE: Action.SEE_JOBS,
    Kind.WORKERS: Action.SEE_SYSTEM,
    Kind.STATUS: Action.SEE_SYSTEM,
    Kind.PAUSES: Action.SEE_SYSTEM,
    Kind.PAUSE: Action.OPERATE,
    Kind.SCHEDULES: Action.SEE_JOBS,
    Kind.JOURNAL: Action.SEE_JOBS,
    Kind.WHY: Action.SEE_JOBS,
    Kind.RUNS: Action.SEE_JOBS,
    Kind.LIMITS: Action.SEE_SYSTEM,
    Kind.SET_LIMITS: Action.OPERATE,
}
"""What a client's key must permit; all else is about submitting."""

M = TypeVar("M", Submit, Cancel, Signals)


class _AuditedOrder(Struct, frozen=True):
    """What a client wants done, and what is to be written down of it if its key is an operator's.

    `act` does it, or `change` where the store is written to; `release` gives back what it holds.
    """

    identity: bytes
    request: int
    key: Key | None
    action: str
    targets: Sequence[str]
    act: Callable[[], None] | None
    release: Release
    change: Callable[[], Coroutine[Any, Any, None]] | None = None


class Frontend:
    """All clients that are connected by ZeroMQ. It is their ClientLink."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        refusals: RefusalLog,
        *,
        new_id: Callable[[], str],
        keys: KeyList,
        environment: Environment = REAL,
    ) -> None:
        self._keys = keys
        self._dispatcher = dispatcher
        self._refusals = refusals
        self._new_id = new_id
        self._whole_bytes = 0
        self._is_choked = False
        self._part_sender: tuple[JobScope, Key | None] = EVERYTHING, None
        self._parts = PartedMessages(
            self._send_frames,
            self._receive_parted,
            budget=ByteBudget(INCOMING_BYTES),
            max_bytes=2 * dispatcher.rules.intake.max_payload_bytes + 1024 * 1024,
            kinds=frozenset({Kind.SUBMIT}),
            outgoing_bytes=OUTGOING_BYTES,
            give_up_after=UNANSWERED_SECONDS,
            on_undelivered=self._count_undelivered,
            environment=environment,
        )
        self._audit = AuditLog(dispatcher, new_id=new_id)
        book = ScheduleBook(dispatcher, new_id=new_id, submit=partial(submit_and_wait, dispatcher))
        self._questions = Questions(dispatcher, book, lambda: self._parts.is_clogged)
        self._schedules = ScheduleLine(book, self._audit)
        self._audited: asyncio.Queue[_AuditedOrder] = asyncio.Queue()
        self._undelivered = UndeliveredResults()
        self._unanswered: set[tuple[bytes, int]] = set()
        self.socket: LoopSocket
        dispatcher.serve_clients(FULL_GATEWAY, self)
        dispatcher.serve_clients(PLAIN_GATEWAY, self)

    # ---- receiving

    def receive(self, batch: list[list[bytes]]) -> None:
        for identity, *message in batch:
            scope = scope_of(self._keys.of(identity))
            try:
                match frames.read(message):
                    case Plain(body):
                        self._check_plain(identity)
                        self._submit_plain(identity, scope, body)
                    case Full(kind, body):
                        if self._may(identity, kind, body):
                            self._receive_full(identity, scope, kind, body)
            except ProtocolError as error:
                self._refusals.note(peer_name(identity), "frames", str(error))
                self.socket.send([identity, *plain_error(str(error))])
        if self._dispatcher.is_full:
            self.socket.pause()
            self._dispatcher.when_drained(self._resume)
        if self._whole_bytes >= WHOLE_INCOMING_BYTES:
            self._is_choked = True
            self.socket.pause()

    def _may(self, identity: bytes, kind: Kind, body: bytes) -> bool:
        """True if the client's key permits what it asks for; else it is told."""
        reason = self._keys.refusal(identity, NEEDED.get(kind, Action.SUBMIT))
        if reason is None and kind is Kind.SET_LIMITS:
            reason = key_fault(self._keys.of(identity), LIMITS_HOLD) or None
        if reason is not None:
            self._refusals.note(peer_name(identity), "key", reason)
            self._refuse(identity, request_of(body), reason, RefusalCode.FORBIDDEN)
        return reason is None

    def _check_plain(self, identity: bytes) -> None:
        """Raise a ProtocolError if a plain client may not submit.

        A name of its own could be another's, who would then get its results.
        """
        if not self._keys.is_on:
            return
        reason = self._keys.refusal(identity, Action.SUBMIT)
        if reason is None and identity[:1] != b"\0":
            reason = "with keys, plain clients leave their identity to ZeroMQ; set none"
        if reason is not None:
            raise ProtocolError(reason)

    def _resume(self) -> None:
        if not self._is_choked:
            self.socket.resume()

    def _hold(self, size: int) -> Release:
        """Count bytes that came in one piece until they are committed."""
        self._whole_bytes += size

        def release() -> None:
            self._whole_bytes -= size
            if self._is_choked and self._whole_bytes <= WHOLE_INCOMING_BYTES // 2:
                self._is_choked = False
                if not self._dispatcher.is_full:
                    self.socket.resume()

        return release

    # ---- large messages

    def _send_frames(self, identity: bytes, message: Sequence[bytes]) -> bool:
        return self.socket.send([identity, *message])

    def _send(self, identity: bytes, message: list[bytes], *, in_parts: bool) -> bool:
        """Send a message, in parts if it is large and the client takes them."""
        if in_parts and len(message[-1]) > WHOLE_BYTES:
            return self._parts.send(Kind(message[1].decode()), message[-1], peer=identity, key=1)
        return self._send_frames(identity, message)

    def _receive_parted(self, identity: bytes, _: Kind, body: Body, release: Release) -> None:
        try:
            self._take_submit(identity, *self._part_sender, decode(body, Submit), release)
        except ProtocolError as error:
            release()
            self._refusals.note(peer_name(identity), "message", str(error))
            self._refuse(identity, 0, str(error))

    def _count_undelivered(self, _: bytes, key: object, __: str) -> None:
        self._dispatcher.counters["results_undelivered"] += 1

    def _submit_plain(self, identity: bytes, scope: JobScope, body: bytes) -> None:
        if body == frames.PONG:
            raise ProtocolError(PONG_IS_NO_JOB)
        if fault := self._dispatcher.store_health.fault():
            self.socket.send([identity, *plain_error(f"{fault}; send it again later")])
            return
        submission = Submission(self._new_id(), DEFAULT_TYPE, document_of(body))
        release = self._hold(len(body))

        def answer(receipts: list[Receipt]) -> None:
            release()
            for receipt in receipts:
                if receipt.reason:
                    self._refusals.note(peer_name(identity), "job", receipt.reason)
                    self.socket.send([identity, *plain_error(receipt.reason)])

        submitter = self._submitter(PLAIN_GATEWAY, identity, scope)
        self._dispatcher.submit([submission], answer, submitter=submitter)

    def _receive_full(self, identity: bytes, scope: JobScope, kind: Kind, body: bytes) -> None:
        try:
            if kind is Kind.SUBMIT:
                submit, key = decode(body, Submit), self._keys.of(identity)
                self._take_submit(identity, scope, key, submit, self._hold(len(body)))
            elif kind in PART_KINDS:
                self._part_sender = scope, self._keys.of(identity)  # who may complete a message
                self._parts.take(kind, body, peer=identity)
            elif kind is Kind.CANCEL:
                cancel, release = decode(body, Cancel), self._hold(len(body))
                key = self._keys.of(identity)
                act = partial(
                    self._unless_store_fails, self._cancel, identity, scope, cancel, release
                )
                order = _AuditedOrder(
                    identity, cancel.request, key, "cancel job", cancel.job_ids, act, release
                )
                self._take_order(order)
            elif kind is Kind.SIGNAL:
                signals, release = decode(body, Signals), self._hold(len(body))
                key, ids = self._keys.of(identity), [it.job_id for it in signals.signals]
                act = partial(
                    self._unless_store_fails, self._signal, identity, scope, signals, release
                )
                order = _AuditedOrder(
                    identity, signals.request, key, "signal job", ids, act, release
                )
                self._take_order(order)
            elif kind is Kind.PAUSE:
                wanted, key = decode(body, PauseOrder), self._keys.of(identity)
                release = self._hold(len(body))
                action = f"{'pause' if wanted.is_on else 'resume'} {wanted.target}"
                change = partial(self._pause, identity, key, wanted, release)
                order = _AuditedOrder(
                    identity, wanted.request, key, action, (wanted.name,), None, release, change
                )
                self._take_order(order)
            elif kind in self._questions:
                self._put_off(self._questions.put(identity, scope, kind, body))
            elif kind is Kind.SCHEDULE:
                self._put_off(self._schedules.put(identity, self._keys.of(identity), body))
            elif kind in (Kind.READY, Kind.PING):
                raise ProtocolError(
                    f"{kind} is for workers to send, and clients connect here (zmq.frontend); "
                    "connect to the dispatcher's zmq.backend, port 5561 unless it is set"
                )
            else:
                raise ProtocolError(f"{kind} is not for a client to send")
        except ProtocolError as error:
            self._refusals.note(peer_name(identity), "message", str(error))
            self._refuse(identity, 0, str(error))

    def _take_submit(
        self,
        identity: bytes,
        scope: JobScope,
        key: Key | None,
        submit: Submit,
        release: Release,
    ) -> None:
        """Take jobs in; those that an operator has done again are written down first."""
        act = partial(self._unless_store_fails, self._submit, identity, scope, submit, release)
        rerun = [it.rerun_of for it in submit.jobs if it.rerun_of]
        order = _AuditedOrder(identity, submit.request, key, "rerun job", rerun, act, release)
        self._take_order(order)

    def _take_order(self, order: _AuditedOrder) -> None:
        """Do at once what need not be written down."""
        if order.act is None or (order.targets and self._audit.is_due(order.key)):
            self._audited.put_nowait(order)
        else:
            order.act()

    def _put_off(self, displaced: Sequence[tuple[bytes, Busy]]) -> None:
        """Have clients come again later for whom there is no room in line."""
        for asker, busy in displaced:
            self._dispatcher.counters["questions_put_off"] += 1
            self._send_frames(asker, full(Kind.BUSY, busy))

    def _unless_store_fails(
        self,
        act: Callable[[bytes, JobScope, M, Release], None],
        identity: bytes,
        scope: JobScope,
        order: M,
        release: Release,
    ) -> None:
        """Do what needs a commit, or say why there can be none; the client may send it again."""
        self._unanswered.add((identity, order.request))
        if self._dispatcher.store_health.fault():
            release()
            self._tell_fault()
        else:
            act(identity, scope, order, release)

    def _tell_fault(self) -> None:
        """Tell those who wait for a commit that there can be none; they may get it all the same."""
        if self._unanswered and (fault := self._dispatcher.store_health.fault()):
            unanswered, self._unanswered = self._unanswered, set()
            for identity, request in unanswered:
                self._refuse(identity, request, fault, RefusalCode.STORE_FAILS)

    def _submit(self, identity: bytes, scope: JobScope, submit: Submit, release: Release) -> None:
        served = self._dispatcher.view.served_types()
        unserved = tuple(sorted({submission.type for submission in submit.jobs} - served))
        some = unserved[:MOST_SPELT]
        meant = tuple(similar(it, served) for it in some) if some else ()

        def answer(receipts: list[Receipt]) -> None:
            release()
            accepted = Accepted(submit.request, tuple(receipts), unserved, meant)
            self._unanswered.discard((identity, submit.request))
            self.socket.send([identity, *full(Kind.ACCEPTED, accepted)])

        submitter = self._submitter(FULL_GATEWAY, identity, scope)
        self._dispatcher.submit(submit.jobs, answer, submitter=submitter)

    def _cancel(self, identity: bytes, scope: JobScope, cancel: Cancel, release: Release) -> None:
        def answer(receipts: list[Receipt]) -> None:
            release()
            accepted = Accepted(cancel.request, tuple(receipts))
            self._unanswered.discard((identity, cancel.request))
            self.socket.send([identity, *full(Kind.ACCEPTED, accepted)])

        if cancel.job_ids:
            self._dispatcher.cancel(cancel.job_ids, answer, scope)
        else:
            answer([])

    def _signal(self, identity: bytes, scope: JobScope, signals: Signals, release: Release) -> None:
        faults = [(it, signal_fault(it)) for it in signals.signals]
        good, now = [it for it, fault in faults if fault is None], self._dispatcher.now()

        def answer(receipts: list[Receipt]) -> None:
            release()
            given = iter(receipts)
            told = tuple(
                next(given) if fault is None else Receipt(it.job_id, *fault) for it, fault in faults
            )
            self._unanswered.discard((identity, signals.request))
            self.socket.send([identity, *full(Kind.ACCEPTED, Accepted(signals.request, told))])

        if good:
            self._dispatcher.signal([it.entry(now=now) for it in good], answer, scope)
        else:
            answer([])

    def _submitter(self, gateway: str, identity: bytes, scope: JobScope) -> Submitter:
        """Name the client; an identity that ZeroMQ made up holds for this run of ours only."""
        own = self._dispatcher.id if identity[:1] == b"\0" else None
        reply_to = ReplyTo(gateway, bytes(identity), own)
        return Submitter(reply_to, namespace=scope.namespace, sees_all=scope.sees_all)

    # ---- what operators do

    async def perform_audited(self) -> None:
        """Do what operators ask for, for ever: it is written down first."""
        while True:
            order = await self._audited.get()
            try:
                await self._audit.note(order.key, order.action, order.targets, "over ZeroMQ")
                if order.change is not None:
                    await order.change()
            except StoreError as error:
                order.release()
                code = RefusalCode.STORE_FAILS
                self._refuse(order.identity, order.request, str(error), code)
            else:
                if order.act is not None:
                    order.act()

    async def _pause(
        self, identity: bytes, key: Key | None, order: PauseOrder, release: Release
    ) -> None:
        """Hold something back, or let it go on, and say so."""
        receipt = Receipt(order.name)
        try:
            if fault := key_fault(key):
                raise PauseRefused(order.target, order.name, fault)
            if order.is_on:
                by = "" if key is None else key.name
                await pause(self._dispatcher, order.target, order.name, by=by)
            else:
                await resume(self._dispatcher, order.target, order.name)
        except PauseRefused as error:
            receipt = Receipt(order.name, error.target, error.reason)
        release()
        self.socket.send([identity, *full(Kind.ACCEPTED, Accepted(order.request, (receipt,)))])

    async def carry_out_schedules(self) -> None:
        """Do what clients order about schedules, for ever, each in its turn."""
        while True:
            identity, order = await self._schedules.next()
            try:
                answer = await self._schedules.carry_out(order)
            except ProtocolError as error:
                self._refusals.note(peer_name(identity), "message", str(error))
                self._refuse(identity, request_of(order.body), str(error))
            except StoreError as error:
                code = RefusalCode.STORE_FAILS
                self._refuse(identity, request_of(order.body), str(error), code)
            else:
                self._send_frames(identity, full(Kind.SCHEDULES, answer))

    async def _note_change(self, identity: bytes, body: bytes) -> None:
        """Write down that an operator is about to change limits."""
        if self._audit.is_due(key := self._keys.of(identity)):
            job_type = decode(body, SetLimits).type
            await self._audit.note(key, "set limits", [job_type], "over ZeroMQ")

    # ---- questions

    async def answer_questions(self) -> None:
        """Answer for ever, each client in its turn."""
        while True:
            identity, question = await self._questions.next()
            body = question.body
            if not self.socket.has_room(identity):
                continue  # it reads nothing: no answer would get through, not even a refusal
            try:
                if question.kind is Kind.SET_LIMITS:
                    await self._note_change(identity, body)
                answer_kind, answer, in_parts = await self._questions.answer(question)
            except ProtocolError as error:
                self._refusals.note(peer_name(identity), "message", str(error))
                self._refuse(identity, 0, str(error))
            except StoreError as error:
                code = RefusalCode.STORE_FAILS
                self._refuse(identity, request_of(body), str(error), code)
            else:
                if not self._send(identity, full(answer_kind, answer), in_parts=in_parts):
                    self._send_frames(identity, full(Kind.BUSY, memory_is_full(request_of(body))))

    def _refuse(
        self,
        identity: bytes,
        request: int,
        reason: str,
        code: RefusalCode = RefusalCode.OTHER,
    ) -> None:
        self.socket.send([identity, *full(Kind.ERROR, Refusal(request, reason, code))])

    # ---- ClientLink

    def deliver(self, jobs: Sequence[Job]) -> None:
        by_client: defaultdict[bytes, list[Outcome]] = defaultdict(list)
        for job in jobs:
            reply_to = job.reply_to
            assert reply_to is not None
            if reply_to.dispatcher not in (None, self._dispatcher.id):
                self._dispatcher.counters["results_undelivered"] += 1
            elif reply_to.gateway == PLAIN_GATEWAY:
                self._deliver_plain(reply_to.address, job)
            else:
                by_client[reply_to.address].append(_outcome(job))
        for identity, outcomes in by_client.items():
            for batch in batches(outcomes, _weight):
                is_large = _weight(batch[0]) > WHOLE_BYTES
                if (is_large and self._parts.is_clogged) or not self._send(
                    identity, full(Kind.RESULTS, Outcomes(tuple(batch))), in_parts=True
                ):
                    self._dispatcher.counters["results_undelivered"] += len(batch)

    def _deliver_plain(self, identity: bytes, job: Job) -> None:
        if job.status is Status.COMPLETED and job.result is not None:
            answer = [frames.DELIMITER, bytes_of(job.result)]
        else:
            error = job.error.message if job.error else job.status.word
            answer = plain_error(f"job {job.id} {job.status.word}: {error}")
        message = [identity, *answer]
        if self.socket.send(message):
            return
        is_named = identity[:1] != b"\0"
        if not (is_named and self._undelivered.keep(message, now=self._dispatcher.now())):
            self._dispatcher.counters["results_undelivered"] += 1

    def tick(self) -> None:
        """Offer results again to clients that were away; say that the store fails, if it does."""
        self._tell_fault()
        dropped = self._undelivered.try_again(self.socket.send, now=self._dispatcher.now())
        self._dispatcher.counters["results_undelivered"] += dropped
        self._parts.tick()


def _outcome(job: Job) -> Outcome:
    return Outcome(job.id, job.status, job.result, job.error)


def _weight(outcome: Outcome) -> int:
    return len(outcome.result or b"")
