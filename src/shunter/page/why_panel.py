"""Why a job does not run, on its page."""

from __future__ import annotations

from shunter.model.job import Job
from shunter.page.system_look import SystemLook
from shunter.page.view import Data, PageRequest
from shunter.why.store_reads import explain


async def read_why(look: SystemLook, asked: PageRequest, job: Job) -> Data:
    """Return what is said about the job to whoever asks, at most once in a while."""
    store, now = look.ports.dispatcher.store, look.now

    async def read() -> Data:
        return {"why": await explain(store, job, now=now, scope=asked.scope)}

    return await look.once(("why", job.id, job.revision, asked.scope), read)
