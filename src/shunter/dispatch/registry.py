"""Worker records that several dispatchers write: read, decide, compare and swap, until it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shunter.errors import StoreError
from shunter.model.worker import Worker
from shunter.store.port import Store

MAX_TRIES = 20

Decision = Callable[[Worker | None], Worker | None]
"""What becomes of a record, which may not be there; None leaves it as it is."""


async def change_workers(store: Store, decisions: Mapping[str, Decision]) -> list[Worker]:
    """Decide on records by their ids, again on those that others wrote first; return what is new.

    A decision is made on what the store says then, so it may be made more than once.
    """
    left, written = dict(decisions), list[Worker]()
    for _ in range(MAX_TRIES):
        known = {worker.id: worker for worker in await store.workers(list(left))}
        wanted = [decide(known.get(worker_id)) for worker_id, decide in left.items()]
        changes = [worker for worker in wanted if worker is not None]
        if not changes:
            return written
        answers = await store.swap_workers(changes)
        written += [worker for worker, was in zip(changes, answers, strict=True) if was]
        lost = {worker.id for worker, was in zip(changes, answers, strict=True) if not was}
        left = {worker_id: left[worker_id] for worker_id in left if worker_id in lost}
        if not left:
            return written
    raise StoreError(f"workers {', '.join(left)} are being changed all the time; try again later")
