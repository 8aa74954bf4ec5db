"""Clients over UDP: their tasks become jobs, and they are told how those ended."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence

from shunter.dispatch.arrivals import Stored
from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.udp.exchange import Asked, Exchange
from shunter.gateway.udp.quota import Quota
from shunter.model.job import DEFAULT_TYPE, ErrorKind, Job, Status
from shunter.wire.messages import Receipt, Submission
from shunter.wire.udp import naming, packets
from shunter.wire.udp.calculators import Address, TaskId
from shunter.wire.udp.methods import AddTask, NotifyTask, Packed
from shunter.wire.udp.packets import Command

NIL = b"\xc0"
NOTICE_SECONDS = 15.0
"""For how long a success is told again and again; after that less often, as a callback is."""

SHOWN_LETTERS = 300


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
        self._heard: list[tuple[str, int, str | None]] = []

    def add(self, params: AddTask, command: Command, peer: Address, size: int) -> None:
        """Store a task; it is confirmed once it is committed."""
        asked = command.transmission_id if command.wants_answer else None
        if self._dispatcher.is_full or not self._quota.has_room(peer):
            message = "too many tasks are under way; wait for some to end, then send it again"
            self._exchange.unheard(command, peer)
            self._exchange.complain(peer, "busy", message)
            self._exchange.refuse(asked, peer, size, code="busy", message=message)
            return
        wish = Submission(
            self._new_id(),
            params.type or DEFAULT_TYPE,
            bytes(params.payload) if params.payload is not None else NIL,
            priority=params.priority,
            unique_key=naming.unique_key(peer, params.task_id),
            place_within=self._place_within,
        )

        def stored(found: list[Stored]) -> None:
            self._quota.took(peer, [each.job.id for each in found if each.is_new])

        def answered(receipts: list[Receipt]) -> None:
            self._quota.answered(peer)
            (receipt,) = receipts
            if not receipt.reason or receipt.field == "unique_key":  # it may be there already
                self._exchange.answer(command, peer)
                return
            self._exchange.unheard(command, peer)
            self._exchange.complain(peer, "task", receipt.reason)
            self._exchange.refuse(
                asked, peer, size, code="invalid", message=receipt.reason, field=receipt.field
            )

        self._quota.asked(peer)
        self._dispatcher.submit([wish], naming.reply_to(peer, params.task_id), answered, stored)

    def deliver(self, jobs: Sequence[Job]) -> None:
        """Tell clients of the ends that were just written; nobody else does so for a while."""
        for job in jobs:
            known = naming.client_of(job)
            if known is None or job.callback is None or job.callback.due is None:
                continue
            self._quota.ended(known[0], job.id)
            self._dispatcher.callbacks.expect(job)
            self._notify(job, *known, heard=self._noting(job))

    def pass_on(self) -> None:
        """Let it be written which notices were heard.

        Nobody waits for that, so it has no commit of its own: this is called when there is
        something to be committed anyway, and now and again.
        """
        heard, self._heard = self._heard, []
        for job_id, tries, error in heard:
            self._dispatcher.called_back(job_id, tries, error)

    async def notify(self, job: Job) -> str | None:
        """Tell a client that was not reached before; return what went wrong."""
        known = naming.client_of(job)
        if known is None:
            return "no client of UDP added this job"
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._notify(job, *known, heard=ended.set_result)
        return await ended

    def _noting(self, job: Job) -> Callable[[str | None], None]:
        assert job.callback is not None
        job_id, tries = job.id, job.callback.tries
        return lambda error: self._heard.append((job_id, tries, error))

    def _notify(
        self, job: Job, peer: Address, task_id: TaskId, heard: Callable[[str | None], None]
    ) -> None:
        if job.status is not Status.COMPLETED:
            self._exchange.send(packets.notice(_bad_news(job, task_id)), peer)
            heard(None)
            return
        number = notice_number(job.id)
        packet = packets.request(_good_news(job, task_id), number)
        if self._exchange.size_of(packet) > self._exchange.max_packet_bytes:
            message = f"the result does not fit into a packet; read job {job.id} over HTTP"
            without = NotifyTask(status="success", task_id=task_id, job_id=job.id, error=message)
            packet = packets.request(without, number)
        missed = f"client {peer[0]}:{peer[1]} did not confirm it"
        asked = Asked(lambda _: heard(None), lambda: heard(missed))
        self._exchange.ask(peer, number, packet, asked, give_up_after=NOTICE_SECONDS)


def notice_number(job_id: str) -> int:
    """Return the transmission id of a job's notice: the same also after a restart."""
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:6])


def _good_news(job: Job, task_id: TaskId) -> NotifyTask:
    result = None if job.result in (None, NIL) else Packed(job.result or b"")
    return NotifyTask(status="success", task_id=task_id, result=result, job_id=job.id)


def _bad_news(job: Job, task_id: TaskId) -> NotifyTask:
    is_unplaced = job.error is not None and job.error.kind is ErrorKind.UNPLACED
    return NotifyTask(
        status="failed_post" if is_unplaced else "error",
        task_id=task_id,
        error=(job.error.message if job.error else job.status.word)[:SHOWN_LETTERS],
        job_id=job.id,
    )
