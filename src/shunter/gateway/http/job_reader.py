"""Jobs read from the store: all that are asked for in one turn of the loop, by one call.

Requests that were committed together come back together, so this is the reading side of the
group commit.
"""

from __future__ import annotations

import asyncio

from shunter.errors import JobRefused, StoreError
from shunter.model.document import sealed_data_at
from shunter.model.job import Job
from shunter.model.journal import EntryKind, JournalEntry, before_step
from shunter.store.port import Store

READ_AT_ONCE = 64


class JobReader:
    """Reads whole jobs, with payload and result."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[str, asyncio.Future[Job | None]] = {}

    async def job(self, job_id: str) -> Job | None:
        """Return the job as it is after this call was made, None where there is none."""
        if job_id in self._asked:
            return await asyncio.shield(self._asked[job_id])
        answer: asyncio.Future[Job | None] = asyncio.get_running_loop().create_future()
        self._asked[job_id] = answer
        if len(self._asked) == 1:
            await asyncio.sleep(0)
            await self._read()
        return await answer

    async def _read(self) -> None:
        asked, self._asked = self._asked, {}
        ids = list(asked)
        try:
            for start in range(0, len(ids), READ_AT_ONCE):
                some = ids[start : start + READ_AT_ONCE]
                for job_id, job in zip(
                    some, await self._store.get(some, payload=True), strict=True
                ):
                    if not asked[job_id].done():
                        asked[job_id].set_result(job)
        except StoreError as error:
            for answer in asked.values():
                if not answer.done():
                    answer.set_exception(error)
        finally:
            for answer in asked.values():
                answer.cancel()


async def journal_before(store: Store, job_id: str, step: str) -> tuple[JournalEntry, ...]:
    """Return what a rerun from a step takes over, or raise JobRefused; not what is encrypted."""
    kept: dict[EntryKind, list[JournalEntry]] = {EntryKind.STEP: [], EntryKind.SIGNAL: []}
    for kind, entries in kept.items():
        while True:
            after = entries[-1].key if entries else ""
            page = await store.journal(job_id, kind, after=after)
            entries += page.entries
            if not page.is_more:
                break
    found = before_step(job_id, kept[EntryKind.STEP], kept[EntryKind.SIGNAL], step)
    if any(sealed_data_at(entry.body) is not None for entry in found):
        raise JobRefused(
            job_id,
            "from_step",
            "its steps are encrypted for that job alone; rerun it with `shunter rerun --app` or "
            "Client(codec=...)",
        )
    return tuple(found)
