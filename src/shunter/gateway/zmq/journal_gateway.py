"""Answers workers that keep something of a run, or want to know what is kept.

What is kept goes through the dispatcher's turns, and is answered after its commit. What is asked
for is read from the store, one worker's question after the other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import JobError, StoreError
from shunter.model.journal import JOURNAL_PAGE_BYTES, Keep, entries_of, keep_fault
from shunter.model.run_secrets import RunSecrets
from shunter.model.waits import MAX_CHILDREN, child_ids
from shunter.wire.messages import Keeps, Kept, Kind, Message, Outcome, Recall, Recalled

Send = Callable[[str, Kind, Message], None]

MOST_WAITING = 10_000
"""So many questions may wait; a worker repeats one that is not answered."""


class JournalGateway:
    """The journals, as workers of one gateway see them. `send` reaches a worker by its id."""

    def __init__(self, dispatcher: Dispatcher, run_secrets: RunSecrets, send: Send) -> None:
        self._dispatcher, self._run_secrets, self._send = dispatcher, run_secrets, send
        self._recalls: asyncio.Queue[tuple[str, Recall]] = asyncio.Queue(MOST_WAITING)

    def keep(self, worker_id: str, request: Keeps) -> None:
        """Have kept what is proven and possible; the rest is answered as refused."""
        believed, refused = self._run_secrets.sifted(request.keeps, request.secrets)
        for error in refused:
            self._dispatcher.refuse(worker_id, error)
        proven = {(keep.job_id, keep.attempt) for keep in believed}
        good: list[Keep] = []
        places: list[int | None] = []
        for keep in request.keeps:
            if fault := keep_fault(keep):
                self._dispatcher.refuse(worker_id, JobError(keep.job_id, f"keep: {fault}"))
            if fault or (keep.job_id, keep.attempt) not in proven:
                places.append(None)
            else:
                places.append(len(good))
                good.append(keep)

        def answer(is_kept: Sequence[bool]) -> None:
            told = tuple(place is not None and is_kept[place] for place in places)
            self._send(worker_id, Kind.KEEP, Kept(request.request, told))

        if good:
            self._dispatcher.keep(entries_of(good, now=self._dispatcher.now()), answer)
        else:
            answer([])

    def recall(self, worker_id: str, recall: Recall) -> None:
        """Put a question in line."""
        if not self._run_secrets.is_proven(recall.job_id, recall.attempt, recall.secret):
            refusal = JobError(recall.job_id, "a recall without the secret of its run")
            self._dispatcher.refuse(worker_id, refusal)
        elif not self._recalls.full():
            self._recalls.put_nowait((worker_id, recall))

    async def answer_recalls(self) -> None:
        """Answer for ever."""
        while True:
            worker_id, recall = await self._recalls.get()
            try:
                answer = await recalled(self._dispatcher, recall)
            except StoreError:
                continue  # it is asked again
            self._send(worker_id, Kind.RECALL, answer)


async def recalled(dispatcher: Dispatcher, recall: Recall) -> Recalled:
    """Read what a run asks for, or raise a StoreError."""
    store = dispatcher.store
    if recall.name:
        return await _outcomes(dispatcher, recall)
    (job,) = await store.get([recall.job_id])
    if job is None:
        return Recalled(recall.request)
    page = await store.journal(recall.job_id, recall.kind, after=recall.after)
    return Recalled(
        recall.request, page.entries, page.is_more, job.signals, job.waits, now=dispatcher.now()
    )


async def _outcomes(dispatcher: Dispatcher, recall: Recall) -> Recalled:
    """Say how the jobs ended that a run has waited for: as many as fit, in their order."""
    count = max(0, min(recall.count, MAX_CHILDREN))
    outcomes: list[Outcome] = []
    size = 0
    for job_id in child_ids(recall.job_id, recall.name, count)[max(0, recall.start) :]:
        (job,) = await dispatcher.store.get([job_id])
        if job is None or not job.status.is_final:
            break
        outcomes.append(Outcome(job.id, job.status, job.result, job.error))
        size += len(job.result or b"") + 256
        if size >= JOURNAL_PAGE_BYTES:
            break
    return Recalled(recall.request, outcomes=tuple(outcomes))
