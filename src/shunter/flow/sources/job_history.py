"""Jobs that have ended, as records, read from the store itself: no dispatcher need run.

A job that has ended never changes, so what was read stays true. The store is read by status,
newest first, and a part of several has some of the statuses. Times are seconds since 1970.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from shunter.errors import FlowError, SettingsError, StoreError
from shunter.flow.sources.since import parse_since
from shunter.model.job import FINAL, Job, Status
from shunter.model.run_times import first_start
from shunter.store.port import JobQuery
from shunter.store.registry import existing_store

READ_AT_ONCE = 1000

COLUMNS = {
    "id": "string",
    "type": "string",
    "status": "string",
    "priority": "bigint",
    "workflow": "string",
    "run": "string",
    "unique_key": "string",
    "created": "timestamp",
    "started": "timestamp",
    "ended": "timestamp",
    "waiting_seconds": "double",
    "run_seconds": "double",
    "attempt": "bigint",
    "losses": "bigint",
    "failures": "bigint",
    "worker_id": "string",
    "dispatcher_id": "string",
    "error_kind": "string",
    "error": "string",
}
"""The fields of a record, with the types that they have as columns."""

ENDINGS = {status.word: status for status in sorted(FINAL)}


class Wanted(Struct, frozen=True):
    """Which jobs: those that ended so, from `since` on and before `until`, of these types."""

    statuses: tuple[Status, ...] = tuple(ENDINGS.values())
    types: tuple[str, ...] | None = None
    since: float | None = None
    until: float | None = None

    def has(self, job: Job) -> bool:
        ended = job.execution.ended or job.updated
        return (
            (self.types is None or job.type in self.types)
            and (self.since is None or ended >= self.since)
            and (self.until is None or ended < self.until)
        )


class JobHistory:
    """The jobs in a store that have ended, each as a dict with the fields in `COLUMNS`.

    `since` is a moment (24h, 7d, a date, or seconds since 1970) from which on they must have
    ended, and `until` one, in seconds, before which. Those that end after it was opened may be
    missing.
    """

    def __init__(
        self,
        store: str,
        *,
        type: str | None = None,  # noqa: A002
        status: str | Collection[str] = tuple(ENDINGS),
        since: str | float | None = None,
        until: float | None = None,
    ) -> None:
        self._store = store
        self._wanted = wanted(type=type, status=status, since=since, until=until)
        self._pages: Iterator[list[Job]] = iter(())
        self._waiting: list[Job] = []
        self._status = 0
        self._before: str | None = None

    def part(self, index: int, count: int) -> JobHistory:
        part = JobHistory(self._store)
        part._wanted = with_statuses(self._wanted, self._wanted.statuses[index::count])
        return part

    def open(self, position: Any | None) -> None:
        self.close()
        self._status, self._before = position or (0, None)
        self._pages = self._read()

    def read(self, limit: int) -> list[Any] | None:
        if not self._waiting:
            page = next(self._pages, None)
            if page is None:
                return None
            self._waiting = page
        some, self._waiting = self._waiting[:limit], self._waiting[limit:]
        if some:
            self._before = some[-1].id
        return [record_of(job) for job in some]

    def position(self) -> Any:
        return [self._status, self._before]

    def close(self) -> None:
        self._waiting = []
        if hasattr(self._pages, "close"):
            self._pages.close()
        self._pages = iter(())

    def _read(self) -> Iterator[list[Job]]:
        with history(self._store) as reader:
            for status in self._wanted.statuses[self._status :]:
                yield from reader.jobs(with_statuses(self._wanted, (status,)), self._before)
                self._status, self._before = self._status + 1, None


def wanted(
    *,
    type: str | None = None,  # noqa: A002
    status: str | Collection[str] = tuple(ENDINGS),
    since: str | float | None = None,
    until: float | None = None,
) -> Wanted:
    """Return which jobs these words mean, or raise a FlowError."""
    words = status.replace(",", " ").split() if isinstance(status, str) else status
    if unknown := [word for word in words if word not in ENDINGS]:
        raise FlowError(f"no job ends as {unknown[0]!r}; choose of {', '.join(ENDINGS)}")
    return Wanted(
        statuses=tuple(dict.fromkeys(ENDINGS[word] for word in words)),
        types=None if type is None else (type,),
        since=parse_since(since, now=time.time()) if isinstance(since, str) else since,
        until=until,
    )


def with_statuses(these: Wanted, statuses: tuple[Status, ...]) -> Wanted:
    return Wanted(statuses, these.types, these.since, these.until)


# ---- reading


class HistoryReader:
    """An open store, read from a thread that has no event loop."""

    def __init__(self, runner: asyncio.Runner, store: Any) -> None:
        self._runner, self._store = runner, store

    def jobs(self, these: Wanted, before: str | None = None) -> Iterator[list[Job]]:
        """Yield the jobs page by page, without payloads and results; a page may be empty.

        `before` is the id of the last one that was read already, of the first status.
        """
        for status in these.statuses:
            last = before
            while True:
                page = self._page(status, these.types, last)
                yield [job for job in page if these.has(job)]
                if len(page) < READ_AT_ONCE:
                    break
                last = page[-1].id
            before = None

    def _page(self, status: Status, types: tuple[str, ...] | None, last: str | None) -> list[Job]:
        only = types[0] if types is not None and len(types) == 1 else None
        query = JobQuery(status=status, type=only, before=last, limit=READ_AT_ONCE)
        found: list[Job] = self._runner.run(self._store.find(query))
        return found


@contextmanager
def history(url: str) -> Iterator[HistoryReader]:
    """Open a store that is there, for reading; what is wrong with it is a FlowError."""
    try:
        with asyncio.Runner() as runner:
            store = runner.run(existing_store(url))
            runner.run(store.open())
            try:
                yield HistoryReader(runner, store)
            finally:
                runner.run(store.close())
    except (StoreError, SettingsError) as error:
        raise FlowError(f"the history of jobs can't be read: {error}") from error


# ---- records


def record_of(job: Job) -> dict[str, Any]:
    """Return what is told of a job that has ended.

    It waited from when it could first run until it did; its run is the last one.
    """
    run = job.execution
    ended = run.ended or job.updated
    first = first_start(job)
    could_run = max(job.created, job.not_before or 0.0)
    return {
        "id": job.id,
        "type": job.type,
        "status": job.status.word,
        "priority": job.priority,
        "workflow": job.workflow,
        "run": job.run,
        "unique_key": job.unique_key,
        "created": job.created,
        "started": run.started,
        "ended": ended,
        "waiting_seconds": None if first is None else max(0.0, first - could_run),
        "run_seconds": None if run.started is None else max(0.0, ended - run.started),
        "attempt": job.attempt,
        "losses": job.losses,
        "failures": job.failures,
        "worker_id": run.worker_id,
        "dispatcher_id": None if job.dispatcher is None else job.dispatcher.id,
        "error_kind": None if job.error is None else str(job.error.kind),
        "error": None if job.error is None else job.error.message,
    }
