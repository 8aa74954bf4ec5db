"""What jobs print, as a client sees it: so far, or as it comes until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec.structs import replace

from shunter.client.sealed_values import opened_text
from shunter.codec import Codec, SealedField
from shunter.errors import ResultTimeout
from shunter.model.job import Job, Status
from shunter.model.job_log import (
    LogPiece,
    LogReader,
    LogRestart,
    is_log_told,
    log_so_far,
    told_of,
)
from shunter.model.job_stream import FIRST_PAUSE, next_pause
from shunter.model.journal import LiveLog
from shunter.net.environment import Environment
from shunter.wire.messages import JournalShown


class JobLogs:
    """The logs of all jobs, as one client sees them.

    `page` asks for what a job's run has told of its log, and `record` for a job's whole record,
    which has the log of a run that has ended.
    """

    def __init__(
        self,
        page: Callable[[str], Awaitable[JournalShown]],
        record: Callable[[str], Awaitable[Job]],
        codec: Codec | None,
        environment: Environment,
    ) -> None:
        self._page, self._record = page, record
        self._codec, self._environment = codec, environment

    async def log(self, job_id: str) -> str:
        """Return what the job's current run has printed so far, or its last one if none is."""
        job = await self._record(job_id)
        if not is_log_told(job):
            return job.log
        return log_so_far(job, self._told(await self._page(job.id), job.attempt))

    async def follow(
        self, job_id: str, timeout: float | None = None
    ) -> AsyncIterator[LogPiece | LogRestart]:
        """Yield what a job prints, from the start of its current run, until it has ended."""
        reader, pause = LogReader(), FIRST_PAUSE
        last: Status | None = None
        heard_at = self._environment.monotonic()
        while True:
            shown = await self._page(job_id)
            status = shown.status
            assert status is not None
            found: list[LogPiece | LogRestart] = []
            if status is not last:
                job = await self._record(job_id)
                if status is not Status.IN_PROGRESS:
                    found += reader.read_record(job, self._told(shown, job.attempt))
            if status is Status.IN_PROGRESS:
                for attempt in {it.attempt for it in shown.entries if it.attempt >= job.attempt}:
                    if told := self._told(shown, attempt):
                        found += reader.read(attempt, told)
            for each in found:
                yield each
            if status.is_final:
                return
            last, now = status, self._environment.monotonic()
            heard_at = now if found else heard_at
            if timeout is not None and now - heard_at >= timeout:
                raise ResultTimeout(job_id, timeout)
            pause = next_pause(pause, has_news=bool(found))
            await asyncio.sleep(pause)

    def _told(self, shown: JournalShown, attempt: int) -> LiveLog | None:
        """Return what a run has told of its log, opened if it can be."""
        told = told_of(shown.entries, attempt)
        if told is None:
            return None
        job_id = shown.entries[0].job_id
        return replace(told, text=opened_text(self._codec, told.text, job_id, SealedField.LOG))
