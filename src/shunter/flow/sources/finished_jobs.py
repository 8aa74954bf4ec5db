"""Events from jobs that have ended: what they were given, and what came of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Generator
from itertools import islice
from typing import Any

import msgspec

from shunter.client.async_client import AsyncClient
from shunter.client.sync_client import Client
from shunter.codec import Codec, is_sealed, label_of, shown_label, shown_sealed
from shunter.errors import FlowError, Unreachable
from shunter.flow.sources.job_harvest import LISTED_AT_ONCE, Ended, Harvest
from shunter.flow.sources.reading_ahead import ReadingAhead
from shunter.model.job import FINAL, Job, Status

SHOWN_AT_ONCE = 8
"""How many jobs a dispatcher shows at once with payload and result."""
QUESTIONS = 16
POLL_SECONDS = 0.5
OPEN_SECONDS = 5.0
ANSWER_SECONDS = 30.0


class FinishedJobs:
    """The jobs of a type that have ended, in the order of their creation as far as they have.

    An event is a dict with `id`, `type`, `status` (completed, failed or cancelled), `payload`,
    `result`, `error`, `attempts`, `created`, `started`, `ended`, `worker`, `workflow`, `run` and
    `unique_key`. It ends with those that had ended when it came to them, or with `follow` never.
    `codec` is that of the app that did them; without it, what it sealed is told as encrypted.
    """

    def __init__(
        self,
        type: str,  # noqa: A002
        *dispatchers: str,
        statuses: Collection[str] = ("completed", "failed", "cancelled"),
        follow: bool = False,
        codec: Codec | None = None,
    ) -> None:
        known = {status.word: status for status in FINAL}
        if unknown := [word for word in statuses if word not in known]:
            raise FlowError(f"no job ends as {unknown[0]!r}; choose of {', '.join(sorted(known))}")
        self._type, self._dispatchers, self._follow = type, dispatchers, follow
        self._codec = codec
        self._statuses = frozenset(known[word] for word in statuses)
        self._ahead: ReadingAhead | None = None
        self._waiting: list[tuple[Ended, Any]] = []
        self._mark = 0.0
        self._given: dict[str, float] = {}

    def open(self, position: Any | None) -> None:
        self.close()
        saved = position or {"mark": 0.0, "given": {}}
        self._mark, self._given = saved["mark"], dict(saved["given"])
        try:
            with Client(*self._dispatchers, timeout=OPEN_SECONDS) as client:
                client.standing()
        except Unreachable as error:
            raise FlowError(str(error)) from error
        harvest = {"statuses": self._statuses, "mark": self._mark, "given": self._given}
        self._ahead = ReadingAhead(lambda stopped: self._batches(stopped, harvest))

    def read(self, limit: int) -> list[Any] | None:
        assert self._ahead is not None, "not open"
        if not self._waiting:
            self._waiting = self._ahead.take() or []
        if not self._waiting:
            return None if self._ahead.is_at_end else []
        some, self._waiting = self._waiting[:limit], self._waiting[limit:]
        for ended, _ in some:
            self._given[ended.id] = ended.created
        self._mark = some[-1][0].mark
        return [event for _, event in some]

    def position(self) -> Any:
        self._given = {job_id: at for job_id, at in self._given.items() if at >= self._mark}
        return {"mark": self._mark, "given": self._given}

    def close(self) -> None:
        self._waiting = []
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _batches(
        self, stopped: threading.Event, known: dict[str, Any]
    ) -> Generator[list[tuple[Ended, Any]], None, None]:
        with asyncio.Runner() as runner:
            client = AsyncClient(*self._dispatchers, timeout=ANSWER_SECONDS, codec=self._codec)

            def listing(status: Status | None, before: str | None) -> list[Job]:
                query = {"type": self._type, "status": status, "before": before}
                return runner.run(client.jobs(limit=LISTED_AT_ONCE, **query))

            try:
                harvest = Harvest(listing, **known)
                while not stopped.is_set():
                    found = harvest.round()
                    while some := list(islice(found, SHOWN_AT_ONCE * QUESTIONS)):
                        yield runner.run(_shown(client, some))
                    if not self._follow:
                        return
                    stopped.wait(POLL_SECONDS)
            finally:
                runner.run(client.close())


async def _shown(client: AsyncClient, ended: list[Ended]) -> list[tuple[Ended, Any]]:
    """Return the jobs' events; one that was purged meanwhile has none."""
    ids = [each.id for each in ended]
    answers = await asyncio.gather(
        *(
            client.jobs(job_ids=tuple(ids[start : start + SHOWN_AT_ONCE]))
            for start in range(0, len(ids), SHOWN_AT_ONCE)
        )
    )
    jobs = {job.id: job for answer in answers for job in answer}
    return [(each, _event_of(jobs[each.id])) for each in ended if each.id in jobs]


def _event_of(job: Job) -> dict[str, Any]:
    error = job.error
    return {
        "id": job.id,
        "type": job.type,
        "status": job.status.word,
        "payload": _value(job.payload),
        "result": _value(job.result),
        "error": None
        if error is None
        else {"kind": str(error.kind), "message": shown_sealed(error.message)},
        "attempts": job.attempt,
        "created": job.created,
        "started": job.execution.started,
        "ended": job.execution.ended,
        "worker": job.execution.worker_id,
        "workflow": job.workflow,
        "run": job.run,
        "unique_key": job.unique_key,
    }


def _value(document: bytes | None) -> Any:
    if document is not None and is_sealed(document):
        return shown_label(label_of(document))
    return None if document is None else msgspec.msgpack.decode(document)
