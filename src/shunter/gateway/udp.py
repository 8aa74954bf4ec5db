"""The UDP gateway: clients and calculators on one port. Translates, nothing more.

Packets, resends, signatures and the register of calculators are pure cores in `wire/udp`; what
becomes of jobs is the dispatcher's. A task is a job: its client's address and number are its
unique key and its `reply_to`; that its client heard of the end is its callback.
Spec: docs/spec/udp.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
from collections.abc import Callable, Sequence

from msgspec import Struct

from shunter.datagrams import Batch, DatagramSocket
from shunter.dispatch.arrivals import Introduced, Stored, Unasked
from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.complaints import Complaints
from shunter.gateway.udp_clients import Clients
from shunter.model.job import DEFAULT_TYPE, ErrorKind, Failure, Job, Status
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.wire.messages import Held, Receipt, Report, Submission
from shunter.wire.udp import naming, packets
from shunter.wire.udp.calculators import (
    Address,
    Calculators,
    Done,
    Effect,
    Forgotten,
    Joined,
    Left,
    NotAsked,
    NotTaken,
    Taken,
    TaskId,
)
from shunter.wire.udp.methods import (
    AddTask,
    CompletedTask,
    Heartbeat,
    NotifyTask,
    Packed,
    PerformTask,
)
from shunter.wire.udp.packets import Command, Confirmation, PacketFault
from shunter.wire.udp.signing import EnvelopeFault, Opener, Signer
from shunter.wire.udp.transmissions import GaveUp, Heard, Incoming, Outgoing, Resend

NIL = b"\xc0"
NOT_CONFIRMED = "it did not confirm the task"
BUSY_CODE = "busy"


class UdpRules(Struct, frozen=True, kw_only=True):
    """What the gateway goes by; spans in seconds."""

    confirm_timeout: float = 5.0
    heartbeat_timeout: float = 10.0
    timeout_task_placement: float = 120.0
    max_packet_bytes: int = packets.MAX_PACKET_BYTES
    max_tasks_per_client: int = 1000


class _Performing(Struct, frozen=True):
    """A task on its way to a calculator."""

    address: Address
    job: Held


class _Notice(Struct, frozen=True):
    """The news of a success on its way to a client; `heard` is told how it ended."""

    heard: Callable[[str | None], None]


class Signing(Struct, frozen=True):
    """How packets are signed and opened, where peers share a secret."""

    signer: Signer
    opener: Opener


class UdpGateway:
    """A ClientLink for those who add tasks, and a WorkerLink for those who perform them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        complaints: Complaints,
        rules: UdpRules,
        *,
        new_id: Callable[[], str],
        signing: Signing | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._complaints = complaints
        self._rules = rules
        self._new_id = new_id
        self._signing = signing
        self._outgoing: Outgoing[_Performing | _Notice] = Outgoing(spread=random.random)
        self._incoming = Incoming()
        self._clients = Clients(rules.max_tasks_per_client, dispatcher.store)
        self._calculators = Calculators(
            heartbeat_timeout=rules.heartbeat_timeout, default_handlers=(DEFAULT_TYPE,)
        )
        self._numbers = itertools.count(int(dispatcher.now() * 1000) * 1000)
        self._batches: dict[int, Callable[[], None]] = {}
        self._performed: dict[Address, int] = {}
        self.socket: DatagramSocket

    def open(self, host: str, port: int) -> None:
        """Listen, or raise an OSError."""
        self.socket = DatagramSocket(host, port, self.receive)
        self._dispatcher.serve_clients(naming.GATEWAY, self)

    def close(self) -> None:
        self.socket.close()

    def tick(self) -> None:
        """Let time pass: resends, silent calculators, memories that fade."""
        now = self._dispatcher.now()
        for effect in self._outgoing.tick(now=now):
            match effect:
                case Resend(peer, _, packet):
                    self._send(packet, peer)
                case GaveUp(_, _, _Performing(address, job)):
                    self._perform(self._calculators.unconfirmed(address, job))
                case GaveUp(peer, _, _Notice(heard)):
                    heard(f"client {peer[0]}:{peer[1]} did not confirm it")
        self._incoming.tick(now=now)
        self._perform(self._calculators.tick(now=now))

    def worker_ids(self) -> list[str]:
        """Return those of all calculators that are there."""
        return [naming.worker_id(address) for address in self._calculators.present()]

    # ---- receiving

    def receive(self, batch: Batch) -> None:
        for packet, peer in batch:
            try:
                self._take(packet, peer)
            except EnvelopeFault as fault:
                self._complaints.note(_shown(peer), f"udp_{fault.reason}", fault.message)
            except PacketFault as fault:
                self._complaints.note(_shown(peer), f"udp_{fault.reason}", str(fault))
                if fault.transmission_id is not None:
                    self._refuse(peer, packet, fault)

    def _take(self, packet: bytes, peer: Address) -> None:
        is_repeated = False
        if self._signing is not None:
            opened = self._signing.opener.opened(packet, now=self._dispatcher.now())
            packet, is_repeated = opened.body, opened.is_repeated
        match packets.parse(packet, most=self._rules.max_packet_bytes):
            case Confirmation() as confirmation:
                self._confirmed(confirmation, peer)
            case Command(params=Heartbeat() as params, wants_answer=False):
                if not is_repeated:
                    self._beat(params, peer)
            case Command() as command:
                self._command(command, peer, len(packet), is_repeated=is_repeated)

    def _command(self, command: Command, peer: Address, size: int, *, is_repeated: bool) -> None:
        now = self._dispatcher.now()
        known = self._incoming.received(peer, command.key, now=now)
        if known is Heard.NEW:
            if is_repeated:
                self._incoming.forget(peer, command.key)
                return
            match command.params:
                case AddTask() as params:
                    self._add(params, command, peer, size)
                case CompletedTask() as params:
                    self._complete(params, command, peer)
                case Heartbeat() as params:
                    self._beat(params, peer)
                    self._answer(command, peer)
                case _:
                    self._incoming.forget(peer, command.key)
                    raise _not_for_us(command)
        elif known is not Heard.UNDER_WAY and known:
            self._send(known, peer)

    def _answer(self, command: Command, peer: Address) -> None:
        """Confirm a request, and remember that; a packet that wants no answer is remembered."""
        written = b""
        if command.wants_answer and command.transmission_id is not None:
            written = packets.answer(command.transmission_id)
            self._send(written, peer)
        self._incoming.answered(peer, command.key, written, now=self._dispatcher.now())

    def _refuse(self, peer: Address, packet: bytes, fault: PacketFault) -> None:
        assert fault.transmission_id is not None
        answer = packets.error_answer(
            fault.transmission_id, fault.reason, fault.message, fault.field, most=len(packet)
        )
        if answer is not None:
            self._send(answer, peer)

    # ---- clients

    def _add(self, params: AddTask, command: Command, peer: Address, size: int) -> None:
        if self._dispatcher.is_full or not self._clients.has_room(peer):
            self._incoming.forget(peer, command.key)
            self._complaints.note(_shown(peer), "udp_busy", "too many tasks under way")
            if command.transmission_id is not None and command.wants_answer:
                message = "too many tasks are under way; wait for some to end, then send it again"
                answer = packets.error_answer(
                    command.transmission_id, BUSY_CODE, message, most=size
                )
                if answer is not None:
                    self._send(answer, peer)
            return
        wish = Submission(
            self._new_id(),
            params.type or DEFAULT_TYPE,
            bytes(params.payload) if params.payload is not None else NIL,
            priority=params.priority,
            unique_key=naming.unique_key(peer, params.task_id),
            place_within=self._rules.timeout_task_placement,
        )

        def stored(found: list[Stored]) -> None:
            self._clients.took(peer, [each.job.id for each in found if each.is_new])

        def answered(receipts: list[Receipt]) -> None:
            self._added(receipts[0], command, peer, size)

        target = naming.reply_to(peer, params.task_id)
        self._dispatcher.submit([wish], target, answered, stored)

    def _added(self, receipt: Receipt, command: Command, peer: Address, size: int) -> None:
        """Confirm a task once it is committed. One that was there before is confirmed as well."""
        if not receipt.reason or receipt.field == "unique_key":
            self._answer(command, peer)
            return
        self._incoming.forget(peer, command.key)
        self._complaints.note(_shown(peer), "udp_task", receipt.reason)
        if command.transmission_id is not None and command.wants_answer:
            answer = packets.error_answer(
                command.transmission_id, "invalid", receipt.reason, receipt.field, most=size
            )
            if answer is not None:
                self._send(answer, peer)

    def deliver(self, jobs: Sequence[Job]) -> None:
        """Notify clients of the end of their tasks; the first time without asking anybody."""
        for job in jobs:
            known = naming.client_of(job)
            if known is None or job.callback is None or job.callback.due is None:
                continue
            self._clients.ended(known[0], job.id)
            self._dispatcher.callbacks.expect(job)
            tries = job.callback.tries

            def heard(error: str | None, job_id: str = job.id, tries: int = tries) -> None:
                self._dispatcher.called_back(job_id, tries, error)

            self._notify(job, *known, heard=heard)

    async def notify(self, job: Job) -> str | None:
        """Notify a client that was not reached before; return what went wrong."""
        known = naming.client_of(job)
        if known is None:
            return "no client of UDP added this job"
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._notify(job, *known, heard=ended.set_result)
        return await ended

    def _notify(
        self, job: Job, peer: Address, task_id: TaskId, heard: Callable[[str | None], None]
    ) -> None:
        if job.status is not Status.COMPLETED:
            self._send(packets.notice(_bad_news(job, task_id)), peer)
            heard(None)
            return
        number = notice_number(job.id)
        if self._outgoing.confirmed(peer, number) is not None:
            pass  # it is begun anew
        packet = packets.request(_good_news(job, task_id), number)
        if len(packet) > self._rules.max_packet_bytes:
            packet = packets.request(
                NotifyTask(status="success", task_id=task_id, job_id=job.id), number
            )
        self._outgoing.begin(
            peer, number, packet, _Notice(heard), now=self._dispatcher.now(), give_up_after=15.0
        )
        self._send(packet, peer)

    # ---- calculators

    def _beat(self, params: Heartbeat, peer: Address) -> None:
        self._perform(
            self._calculators.heartbeat(
                peer,
                is_ready=params.status == "ready",
                handlers=params.handlers,
                now=self._dispatcher.now(),
            )
        )

    def _complete(self, params: CompletedTask, command: Command, peer: Address) -> None:
        """Pass a completion on; it is confirmed once it is committed."""
        number = next(self._numbers)
        self._batches[number] = lambda: self._answer(command, peer)
        task = self._calculators.task_of(peer)
        if task is not None and params.attempt not in (None, task.job.attempt):
            task = None  # of an earlier run of the same job
        worker_id = naming.worker_id(peer)
        result, error = _outcome(params)
        effects = self._calculators.completed(peer, params.task_id, now=self._dispatcher.now())
        for effect in effects:
            match effect:
                case Done(_, job) if task is not None:
                    self._outgoing.forget(peer, self._performed.pop(peer, 0))
                    report = Report(job.job_id, job.attempt, result=result, error=error)
                    self._dispatcher.report(worker_id, [report], batch=number)
                case Done() | NotAsked():
                    unasked = Unasked(worker_id, result, error, params.task_id)
                    self._dispatcher.report_unasked(unasked)
                    self._dispatcher.submit([], None, lambda _: self._taken(number))
        self._perform([e for e in effects if not isinstance(e, Done | NotAsked)])

    def _perform(self, effects: Sequence[Effect]) -> None:
        """Tell the dispatcher what the register of calculators found."""
        dispatcher = self._dispatcher
        for effect in effects:
            match effect:
                case Joined(address, handlers):
                    self._join(address, handlers)
                case Left(address):
                    dispatcher.desk.remove(naming.worker_id(address))
                case NotTaken(address, job):
                    dispatcher.give_back(naming.worker_id(address), [job], NOT_CONFIRMED)
                case Taken(address, _):
                    self._outgoing.forget(address, self._performed.pop(address, 0))
                case Forgotten(address, job):
                    reason = "its calculator says that it is ready, so it does not have it"
                    dispatcher.give_back(naming.worker_id(address), [job], reason, blame=True)

    def _join(self, address: Address, handlers: tuple[str, ...]) -> None:
        worker_id = naming.worker_id(address)
        wanted = tuple(Handler(name) for name in handlers)
        member = self._dispatcher.desk.members.get(worker_id)
        if member is not None and member.worker.handlers == wanted:
            self._dispatcher.resize(worker_id, 1)
            return
        now = self._dispatcher.now()
        worker = Worker(
            id=worker_id,
            kind=WorkerKind.UDP,
            hostname=address[0],
            port=address[1],
            handlers=wanted,
            max_jobs=1,
            registered=now,
            last_pinged=now,
        )
        self._dispatcher.introduce(Introduced(worker, self, frozenset(), 1, None))

    # ---- WorkerLink

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._offer(worker_id, job)

    def _offer(self, worker_id: str, job: Job) -> None:
        address, held = naming.address_of(worker_id), Held(job.id, job.attempt)
        if _has_declined(job, worker_id) and self._is_another_free(address, job.type):
            self._dispatcher.give_back(worker_id, [held], "another calculator is free for it")
            return
        task_id = naming.task_id_of(job)
        number = next(self._numbers)
        packet = packets.request(_task(job, task_id), number)
        if len(packet) > self._rules.max_packet_bytes:
            limit = self._rules.max_packet_bytes
            message = (
                f"as a packet it has {len(packet):,} bytes, and a calculator takes {limit:,} "
                "(udp.max_packet_bytes); send less, or do this type with another kind of worker"
            )
            error = Failure(ErrorKind.REFUSED, message)
            self._dispatcher.report(worker_id, [Report(job.id, job.attempt, error=error)])
        elif self._calculators.offered(address, held, task_id):
            self._outgoing.begin(
                address,
                number,
                packet,
                _Performing(address, held),
                now=self._dispatcher.now(),
                give_up_after=self._rules.confirm_timeout,
            )
            self._performed[address] = number
            self._send(packet, address)
        else:
            self._dispatcher.give_back(worker_id, [held], "its calculator is not free any more")

    def _is_another_free(self, address: Address, job_type: str) -> bool:
        seat = self._dispatcher.desk.roster.freest(job_type)
        return seat is not None and seat.worker_id != naming.worker_id(address)

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None:
        """A calculator can't be told to stop; it gets nothing until it has spoken."""
        address = naming.address_of(worker_id)
        for job in jobs:
            self._calculators.taken_away(address, job)
            if number := self._performed.pop(address, 0):
                self._outgoing.forget(address, number)

    def send_taken(self, worker_id: str, batches: Sequence[int]) -> None:
        for number in batches:
            self._taken(number)

    def send_pong(self, worker_id: str, beat: int) -> None:
        """Heartbeats want no answer."""

    def _taken(self, number: int) -> None:
        if (confirm := self._batches.pop(number, None)) is not None:
            confirm()

    # ---- confirmations

    def _confirmed(self, confirmation: Confirmation, peer: Address) -> None:
        ended = self._outgoing.confirmed(peer, confirmation.transmission_id)
        if ended is None:
            self._complaints.note(
                _shown(peer), "udp_confirmation", "a confirmation that nobody waits for"
            )
            return
        match ended.about:
            case _Performing(address, job) if confirmation.error is not None:
                self._perform(self._calculators.unconfirmed(address, job))
            case _Performing(address, job):
                self._calculators.confirmed(address, job, now=self._dispatcher.now())
            case _Notice(heard):
                heard(None)

    def _send(self, packet: bytes, peer: Address) -> None:
        if self._signing is not None:
            packet = self._signing.signer.sign(packet, now=self._dispatcher.now())
        self.socket.send(packet, peer)


def notice_number(job_id: str) -> int:
    """Return the transmission id of a job's notice: the same also after a restart."""
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:6])


def _task(job: Job, task_id: TaskId) -> PerformTask:
    """Write a task as the seed has it where there is nothing more to say."""
    payload = None if job.payload in (None, NIL) else Packed(job.payload or b"")
    return PerformTask(
        task_id=task_id,
        type=None if job.type == DEFAULT_TYPE else job.type,
        payload=payload,
        attempt=job.attempt,
        timeout=job.execution.timeout,
    )


def _good_news(job: Job, task_id: TaskId) -> NotifyTask:
    result = None if job.result in (None, NIL) else Packed(job.result or b"")
    return NotifyTask(status="success", task_id=task_id, result=result, job_id=job.id)


def _bad_news(job: Job, task_id: TaskId) -> NotifyTask:
    is_unplaced = job.error is not None and job.error.kind is ErrorKind.UNPLACED
    message = (job.error.message if job.error else job.status.word)[:300]
    return NotifyTask(
        status="failed_post" if is_unplaced else "error",
        task_id=task_id,
        error=message,
        job_id=job.id,
    )


def _outcome(params: CompletedTask) -> tuple[bytes | None, Failure | None]:
    if params.error is not None:
        return None, Failure(ErrorKind.EXCEPTION, params.error)
    return bytes(params.result) if params.result is not None else NIL, None


def _has_declined(job: Job, worker_id: str) -> bool:
    """Tell whether this calculator did not confirm this task before."""
    return any(
        past.worker_id == worker_id and past.message == NOT_CONFIRMED for past in job.history
    )


def _not_for_us(command: Command) -> PacketFault:
    message = "a dispatcher sends this and does not take it; send add_task or completed_task"
    asked = command.transmission_id if command.wants_answer else None
    return PacketFault(packets.PacketReason.METHOD, "method", message, asked)


def _shown(peer: Address) -> str:
    return f"{peer[0]}:{peer[1]}"
