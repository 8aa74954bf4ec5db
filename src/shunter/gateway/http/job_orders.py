"""What is done to jobs for people: submit, cancel, look. Each is answered after its commit.

The routes for programs and the page for people give the same orders; what is wrong is a
HttpRefusal for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from shunter.dispatch.arrivals import Receipts, Stored, Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import JobFinal
from shunter.gateway.http.job_reader import JobReader
from shunter.model.document import DOCUMENT_BYTES
from shunter.model.job import Job
from shunter.model.journal import JournalEntry
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.submission import Receipt, Submission
from shunter.net.web.refusals import CONFLICTS, HttpRefusal, not_found, unavailable

T = TypeVar("T")

COMMIT_SECONDS = 30.0
"""How long a request waits for the commit of what it asked for."""

LOOK_SECONDS = 0.5
"""How often it looks meanwhile whether the store fails."""


class JobOrders:
    """Takes orders to one dispatcher."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._reader = JobReader(dispatcher.store)

    async def submit(self, submission: Submission, scope: JobScope) -> Stored:
        """Have a job stored, or find the equal one that is."""
        self.check_size("payload", submission.payload)
        if self._dispatcher.is_full:
            raise unavailable("too many jobs are waiting to be stored; send it again in a second")
        submitter = Submitter(namespace=scope.namespace, sees_all=scope.sees_all)
        stored: list[Stored] = []
        (receipt,) = await self.answered(
            lambda answer: self._dispatcher.submit([submission], answer, stored.extend, submitter),
            f"job {submission.id} may or may not be stored; send it again under that id",
        )
        if receipt.reason:
            is_taken = receipt.field in ("id", "unique_key", "rerun_of")
            status = HTTPStatus.CONFLICT if is_taken else HTTPStatus.UNPROCESSABLE_ENTITY
            field = "execution.timeout" if receipt.field == "timeout" else receipt.field
            raise HttpRefusal(status, receipt.reason, field=field)
        return stored[0]

    async def cancel(self, job_id: str, scope: JobScope) -> Job:
        """Stop a job, or begin to, and return it as it is then."""
        (receipt,) = await self.answered(
            lambda answer: self._dispatcher.cancel([job_id], answer, scope),
            f"job {job_id} may or may not be cancelled; look at it, or ask again",
        )
        if receipt.reason and receipt.field == "id":
            raise not_found(job_id)
        job = await self.job(job_id, scope)
        if receipt.reason:
            code = CONFLICTS[JobFinal] if job.status.is_final else ""
            raise HttpRefusal(HTTPStatus.CONFLICT, receipt.reason, field=receipt.field, code=code)
        return job

    async def cancel_all(self, job_ids: list[str], scope: JobScope) -> int:
        """Stop some jobs by one commit, and return how many of them could be."""
        if not job_ids:
            return 0
        receipts = await self.answered(
            lambda answer: self._dispatcher.cancel(job_ids, answer, scope),
            "some may or may not be cancelled; look at them, or ask again",
        )
        return sum(not receipt.reason for receipt in receipts)

    async def job(self, job_id: str, scope: JobScope = EVERYTHING) -> Job:
        """Return a whole job, or refuse if it is not there for this caller."""
        job = await self._reader.job(job_id)
        if job is None or not scope.shows(job):
            raise not_found(job_id)
        return job

    async def answered(self, ask: Callable[[Receipts], None], otherwise: str) -> list[Receipt]:
        """Ask the dispatcher, and wait for the commit; not for long while the store fails."""
        return await self._committed(ask, otherwise)

    async def kept(self, entry: JournalEntry, otherwise: str) -> bool:
        """Keep what a run has said; False if it is no longer the job's current one."""
        kept: list[bool] = await self._committed(partial(self._dispatcher.keep, [entry]), otherwise)
        return kept[0]

    async def _committed(
        self, ask: Callable[[Callable[[list[T]], None]], None], otherwise: str
    ) -> list[T]:
        self._check_store("ask again later")
        answered: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()

        def answer(answers: list[T]) -> None:
            if not answered.done():
                answered.set_result(answers)

        ask(answer)
        for _ in range(round(COMMIT_SECONDS / LOOK_SECONDS)):
            await asyncio.wait([answered], timeout=LOOK_SECONDS)
            if answered.done():
                return answered.result()
            self._check_store(otherwise)
        message = f"the store has not confirmed it within {COMMIT_SECONDS:g} s; {otherwise}"
        raise unavailable(message)

    def check_size(self, field: str, document: bytes) -> None:
        """Refuse a document that is larger than payloads and results may be."""
        limit = self._dispatcher.rules.intake.max_payload_bytes
        if len(document) > limit + DOCUMENT_BYTES:
            raise HttpRefusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"found {len(document):,} bytes as msgpack; send at most {limit:,} "
                "(zmq.max_message_bytes), or store the data elsewhere and send its address",
                field=field,
            )

    def _check_store(self, otherwise: str) -> None:
        if fault := self._dispatcher.store_health.fault():
            raise unavailable(f"{fault}; {otherwise}")
