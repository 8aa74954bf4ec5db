"""The clients' side of the ZeroMQ gateway: jobs in, results out, questions answered.

A plain client sends `["", job]` and gets `["", result]` or `["", "ERROR", reason]`; our own
client speaks the full level. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import ProtocolError, StoreError
from shunter.gateway.backend import PONG_IS_NO_JOB
from shunter.gateway.complaints import Complaints, peer_name
from shunter.gateway.latecomers import Latecomers
from shunter.model.job import DEFAULT_TYPE, Job, ReplyTo, Status
from shunter.store.port import JobQuery
from shunter.transport import LoopSocket
from shunter.wire import frames
from shunter.wire.batching import BATCH_BYTES, batches
from shunter.wire.frames import Full, Plain, bytes_of, document_of, full, plain_error
from shunter.wire.messages import (
    Accepted,
    Asked,
    Cancel,
    Fetch,
    Fetched,
    JobsAsked,
    JobsListed,
    Kind,
    Message,
    Outcome,
    Outcomes,
    Receipt,
    Refusal,
    Standing,
    Submission,
    Submit,
    WorkersListed,
    decode,
)

FULL_GATEWAY = "zmq"
PLAIN_GATEWAY = "zmq-plain"
MAX_QUESTIONS = 10_000
MAX_LISTED = 1000
MAX_SHOWN = 8
"""How many jobs are shown at once with payload and result."""
FETCHED_AT_ONCE = 50

Answer = Coroutine[Any, Any, tuple[Kind, Message]]


class Frontend:
    """All clients that are connected by ZeroMQ. It is their ClientLink."""

    def __init__(
        self, dispatcher: Dispatcher, complaints: Complaints, *, new_id: Callable[[], str]
    ) -> None:
        self._dispatcher = dispatcher
        self._complaints = complaints
        self._new_id = new_id
        self._questions: asyncio.Queue[tuple[bytes, Kind, bytes]] = asyncio.Queue(MAX_QUESTIONS)
        self._answers: dict[Kind, Callable[[bytes], Answer]] = {
            Kind.FETCH: self._fetch,
            Kind.LIST: self._list,
            Kind.WORKERS: self._workers,
            Kind.STATUS: self._status,
        }
        self._latecomers = Latecomers()
        self.socket: LoopSocket
        dispatcher.serve_clients(FULL_GATEWAY, self)
        dispatcher.serve_clients(PLAIN_GATEWAY, self)

    # ---- receiving

    def receive(self, batch: list[list[bytes]]) -> None:
        for identity, *message in batch:
            try:
                match frames.read(message):
                    case Plain(body):
                        self._submit_plain(identity, body)
                    case Full(kind, body):
                        self._receive_full(identity, kind, body)
            except ProtocolError as error:
                self._complaints.note(peer_name(identity), "frames", str(error))
                self.socket.send([identity, *plain_error(str(error))])
        if self._dispatcher.is_full:
            self.socket.pause()
            self._dispatcher.when_drained(self.socket.resume)

    def _submit_plain(self, identity: bytes, body: bytes) -> None:
        if body == frames.PONG:
            raise ProtocolError(PONG_IS_NO_JOB)
        wish = Submission(self._new_id(), DEFAULT_TYPE, document_of(body))

        def answer(receipts: list[Receipt]) -> None:
            for receipt in receipts:
                if receipt.reason:
                    self._complaints.note(peer_name(identity), "job", receipt.reason)
                    self.socket.send([identity, *plain_error(receipt.reason)])

        self._dispatcher.submit([wish], self._reply_to(PLAIN_GATEWAY, identity), answer)

    def _receive_full(self, identity: bytes, kind: Kind, body: bytes) -> None:
        try:
            if kind is Kind.SUBMIT:
                self._submit(identity, decode(body, Submit))
            elif kind is Kind.CANCEL:
                self._cancel(identity, decode(body, Cancel))
            elif kind in self._answers:
                self._questions.put_nowait((identity, kind, body))
            else:
                raise ProtocolError(f"{kind} is not for a client to send")
        except asyncio.QueueFull:
            self._refuse(identity, 0, "too many questions are waiting; ask again later")
        except ProtocolError as error:
            self._complaints.note(peer_name(identity), "message", str(error))
            self._refuse(identity, 0, str(error))

    def _submit(self, identity: bytes, submit: Submit) -> None:
        served = self._dispatcher.served_types()
        unserved = tuple(sorted({wish.type for wish in submit.jobs} - served))

        def answer(receipts: list[Receipt]) -> None:
            accepted = Accepted(submit.request, tuple(receipts), unserved)
            self.socket.send([identity, *full(Kind.ACCEPTED, accepted)])

        reply_to = self._reply_to(FULL_GATEWAY, identity)
        self._dispatcher.submit(submit.jobs, reply_to, answer)

    def _cancel(self, identity: bytes, cancel: Cancel) -> None:
        def answer(receipts: list[Receipt]) -> None:
            accepted = Accepted(cancel.request, tuple(receipts))
            self.socket.send([identity, *full(Kind.ACCEPTED, accepted)])

        self._dispatcher.cancel(cancel.job_ids, answer)

    def _reply_to(self, gateway: str, identity: bytes) -> ReplyTo:
        """Name the client; an identity that ZeroMQ made up holds for this run of ours only."""
        own = self._dispatcher.id if identity[:1] == b"\0" else None
        return ReplyTo(gateway, identity, own)

    # ---- questions, answered from the store one after the other

    async def answer_questions(self) -> None:
        """Answer for ever."""
        while True:
            identity, kind, body = await self._questions.get()
            try:
                answer_kind, answer = await self._answers[kind](body)
            except ProtocolError as error:
                self._complaints.note(peer_name(identity), "message", str(error))
                self._refuse(identity, 0, str(error))
            except StoreError as error:
                self._refuse(identity, 0, str(error))
            else:
                self.socket.send([identity, *full(answer_kind, answer)])

    async def _fetch(self, body: bytes) -> tuple[Kind, Message]:
        fetch = decode(body, Fetch)
        outcomes, unknown, size = [], [], 0
        ids = fetch.job_ids[:MAX_LISTED]
        for start in range(0, len(ids), FETCHED_AT_ONCE):
            some = ids[start : start + FETCHED_AT_ONCE]
            for job_id, job in zip(some, await self._dispatcher.store.get(some), strict=True):
                if job is None:
                    unknown.append(job_id)
                elif job.status.is_final:
                    outcomes.append(_outcome(job))
                    size += len(job.result or b"")
            if size >= BATCH_BYTES:
                break
        return Kind.FETCH, Fetched(fetch.request, tuple(outcomes), tuple(unknown))

    async def _list(self, body: bytes) -> tuple[Kind, Message]:
        asked = decode(body, JobsAsked)
        store = self._dispatcher.store
        if asked.job_ids:
            found = await store.get(asked.job_ids[:MAX_SHOWN], payload=True)
            return Kind.LIST, JobsListed(asked.request, tuple(job for job in found if job))
        query = JobQuery(
            status=asked.status,
            type=asked.type,
            worker_id=asked.worker_id,
            before=asked.before,
            limit=max(1, min(asked.limit, MAX_LISTED)),
        )
        return Kind.LIST, JobsListed(asked.request, tuple(await store.find(query)))

    async def _workers(self, body: bytes) -> tuple[Kind, Message]:
        asked = decode(body, Asked)
        workers = await self._dispatcher.store.workers()
        return Kind.WORKERS, WorkersListed(asked.request, tuple(workers))

    async def _status(self, body: bytes) -> tuple[Kind, Message]:
        asked = decode(body, Asked)
        backlog = await self._dispatcher.store.backlog()
        return Kind.STATUS, Standing(
            asked.request,
            self._dispatcher.id,
            tuple((entry.type, entry.status, entry.count) for entry in backlog),
            dict(self._dispatcher.counters),
        )

    def _refuse(self, identity: bytes, request: int, reason: str) -> None:
        self.socket.send([identity, *full(Kind.ERROR, Refusal(request, reason))])

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
            for batch in batches(outcomes, lambda outcome: len(outcome.result or b"")):
                if not self.socket.send([identity, *full(Kind.RESULTS, Outcomes(tuple(batch)))]):
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
        if not (is_named and self._latecomers.keep(message, now=self._dispatcher.now())):
            self._dispatcher.counters["results_undelivered"] += 1

    def tick(self) -> None:
        """Offer results again to clients that were away."""
        dropped = self._latecomers.try_again(self.socket.send, now=self._dispatcher.now())
        self._dispatcher.counters["results_undelivered"] += dropped


def _outcome(job: Job) -> Outcome:
    return Outcome(job.id, job.status, job.result, job.error)
