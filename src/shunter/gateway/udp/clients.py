"""Clients over UDP: their tasks become jobs, and they are told how those ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from shunter.dispatch.arrivals import CallbackAttempted, Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.udp.exchange import Exchange, PendingRequest
from shunter.gateway.udp.quota import Quota
from shunter.model.document import NIL
from shunter.model.job import DEFAULT_TYPE, ErrorKind, Job, Status
from shunter.model.submission import Receipt, Submission
from shunter.wire.udp import job_names, packets
from shunter.wire.udp.calculators import TaskId
from shunter.wire.udp.methods import AddTask, NotifyTask, Packed
from shunter.wire.udp.packets import Command
from shunter.wire.udp.peers import Peer

NOTICE_SECONDS = 15.0
"""For how long an end is told again and again; after that less often, as a callback is."""

MOST_UNCONFIRMED = 20_000
"""With so many requests under way an end is not told at once, but when its callback is due."""

SHOWN_LETTERS = 300


class _Addition(Struct, frozen=True):
    """A task that is to be stored, and the packet that it came in."""

    submission: Submission
    submitter: Submitter
    command: Command
    peer: Peer
    size: int


class UdpClients:
    """All who add tasks. A ClientLink."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        exchange: Exchange,
        *,
        quota: Quota,
        place_within: float,
        new_id: Callable[[], str],
    ) -> None:
        self._dispatcher = dispatcher
        self._exchange = exchange
        self._quota = quota
        self._place_within = place_within
        self._new_id = new_id
        self._added: list[_Addition] = []
        self._heard: list[CallbackAttempted] = []

    def add(
        self,
        params: AddTask,
        command: Command,
        peer: Peer,
        size: int,
        namespace: str = "",
    ) -> None:
        """Take a task, to be stored with the others of its batch of packets."""
        unique_key = job_names.unique_key(peer, params.task_id)
        if fault := self._dispatcher.store_health.fault():
            message = f"{fault}; send it again later"
            self._exchange.endpoint.turn_away(command, peer, size, "busy", message)
            return
        if self._dispatcher.is_full or not self._quota.has_room(peer):
            self._turn_away(unique_key, command, peer, size)
            return
        submission = Submission(
            self._new_id(),
            params.type or DEFAULT_TYPE,
            bytes(params.payload) if params.payload is not None else NIL,
            priority=params.priority,
            unique_key=unique_key,
            place_within=self._place_within,
        )
        self._quota.asked(peer)
        submitter = Submitter(
            job_names.reply_to(peer, params.task_id, self._exchange.number()),
            job_names.notice(peer, params.task_id),
            namespace,
        )
        self._added.append(_Addition(submission, submitter, command, peer, size))

    def store_added(self) -> None:
        """Have the tasks stored that came; each is confirmed once it is committed."""
        if self._added:
            added, self._added = self._added, []
            self._dispatcher.submit_for_many(
                [each.submission for each in added],
                [each.submitter for each in added],
                partial(self._stored, added),
            )

    def _stored(self, added: Sequence[_Addition], receipts: Sequence[Receipt]) -> None:
        for addition, receipt in zip(added, receipts, strict=True):
            submission, command, peer = addition.submission, addition.command, addition.peer
            self._quota.answered(peer)
            if not receipt.reason and receipt.job_id == submission.id:
                self._quota.took(peer, submission.unique_key or "", submission.id)
            if not receipt.reason or receipt.field == "unique_key":  # it may be there already
                self._exchange.endpoint.confirm(command, peer)
                continue
            self._exchange.complain(peer, "task", receipt.reason)
            self._exchange.endpoint.turn_away(
                command, peer, addition.size, "invalid", receipt.reason, receipt.field
            )

    def _turn_away(self, unique_key: str, command: Command, peer: Peer, size: int) -> None:
        """Take no more; but a task that is under way already needs no room."""
        if self._quota.is_under_way(peer, unique_key):
            self._exchange.endpoint.confirm(command, peer)
            return
        message = "too many tasks are under way; wait for some to end, then send it again"
        self._exchange.complain(peer, "busy", message)
        self._exchange.endpoint.turn_away(command, peer, size, "busy", message)

    def deliver(self, jobs: Sequence[Job]) -> None:
        """Tell clients of the ends that were just written; nobody else does so for a while.

        One who adds a task again that has ended is told as well, if nobody has confirmed the end:
        under the number that all notices of the task have.
        """
        for job in jobs:
            known = job_names.client_of(job)
            if known is None or job.callback is None or job.callback.due is None:
                continue
            self._quota.ended(known[0], job.unique_key or "")
            endpoint = self._exchange.endpoint
            is_told = endpoint.is_asking(known[0], job_names.notice_number(job))
            if is_told or len(endpoint) >= MOST_UNCONFIRMED:
                continue
            self._notify(job, *known, heard=self._noting(job))

    def pass_on(self) -> None:
        """Let it be written which notices were heard.

        Nobody waits for that, so it has no commit of its own: this is called when there is
        something to be committed anyway, and now and again.
        """
        if self._heard:
            self._dispatcher.callbacks_attempted(self._heard)
            self._heard = []

    async def notify(self, job: Job) -> str | None:
        """Tell a client that was not reached before; return what went wrong."""
        known = job_names.client_of(job)
        if known is None:
            return "no client of UDP added this job"
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._notify(job, *known, heard=ended.set_result)
        return await ended

    def _noting(self, job: Job) -> Callable[[str | None], None]:
        assert job.callback is not None
        kept, tries = replace(job, payload=None, result=None), job.callback.tries
        return lambda error: self._heard.append(CallbackAttempted(kept.id, tries, error, job=kept))

    def _notify(
        self, job: Job, peer: Peer, task_id: TaskId, heard: Callable[[str | None], None]
    ) -> None:
        number = job_names.notice_number(job) or self._exchange.number()
        packet = packets.request(_notice(job, task_id), number)
        endpoint = self._exchange.endpoint
        if endpoint.size_of(packet, peer) > endpoint.max_packet_bytes:
            message = f"the result does not fit into a packet; read job {job.id} over HTTP"
            without = NotifyTask(status="success", task_id=task_id, job_id=job.id, error=message)
            packet = packets.request(without, number)
        missed = f"client {peer[0]}:{peer[1]} did not confirm it"
        pending = PendingRequest(lambda _: heard(None), lambda: heard(missed))
        endpoint.stop_asking(peer, number)
        endpoint.ask(peer, number, packet, pending, give_up_after=NOTICE_SECONDS)


def _notice(job: Job, task_id: TaskId) -> NotifyTask:
    if job.status is Status.COMPLETED:
        result = None if job.result in (None, NIL) else Packed(job.result or b"")
        return NotifyTask(status="success", task_id=task_id, result=result, job_id=job.id)
    is_unplaced = job.error is not None and job.error.kind is ErrorKind.UNPLACED
    return NotifyTask(
        status="failed_post" if is_unplaced else "error",
        task_id=task_id,
        error=(job.error.message if job.error else job.status.word)[:SHOWN_LETTERS],
        job_id=job.id,
    )
