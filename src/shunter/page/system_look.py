"""Reads the store for all open pages of one dispatcher: each thing at most once in a while.

Twenty people who look at the same cost as much as one. Nothing is read while nobody looks.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from shunter.dispatch.pauses import pauses
from shunter.gateway.http.page_port import PagePorts
from shunter.model.activity import KEPT_MINUTES, ActivityMinute, activity_in, minute_of
from shunter.model.job import Job
from shunter.model.limits_record import LimitsRecord, limits_record
from shunter.model.pause import Pause
from shunter.model.presence import Presence
from shunter.model.record import RecordKind
from shunter.model.worker import Worker
from shunter.net.web.refusals import HttpRefusal
from shunter.store.search import JobSearch, JobsSeen, QueueDepth

FRESH_SECONDS = 0.6
"""For how long what was read is shown to others, too."""

COUNTED = 10_000
"""How far queues are counted."""

MOST_MINUTES = 3000
"""How many minutes of dispatchers are read at most: an hour of fifty of them."""

FEW_MINUTES, MANY_MINUTES = 8, 100
"""How many are read at once, where those of before are known and where they are not."""

SEARCH_SECONDS = 0.08
"""How long a search goes on that has not found a page of jobs."""

MOST_REMEMBERED = 256

T = TypeVar("T")


class SystemLook:
    """What people see of the system."""

    def __init__(self, ports: PagePorts) -> None:
        self.ports = ports
        self._store = ports.dispatcher.store
        self._read: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self._reading: dict[Any, asyncio.Future[Any]] = {}
        self._minutes: dict[str, ActivityMinute] = {}
        self._changes = 0

    @property
    def now(self) -> float:
        return self.ports.dispatcher.now()

    @property
    def skews(self) -> Mapping[str, float]:
        """By how much the clock of the dispatcher that shows the page is ahead of others'."""
        return self.ports.dispatcher.view.skews

    async def depths(self) -> list[QueueDepth]:
        return await self.once("depths", lambda: self._store.depths(most=COUNTED))

    async def workers(self) -> list[Worker]:
        return await self.once("workers", self._store.workers)

    async def presences(self) -> list[Presence]:
        return await self.once("presences", self._store.presences)

    async def pauses(self) -> list[Pause]:
        return await self.once("pauses", lambda: pauses(self._store))

    async def limits(self) -> dict[str, LimitsRecord]:
        async def read() -> dict[str, LimitsRecord]:
            found = await self._store.records(RecordKind.LIMITS)
            return {record.name: limits_record(record) for record in reversed(found)}

        return await self.once("limits", read)

    async def minutes(self) -> list[ActivityMinute]:
        """What all dispatchers did in the last hour."""
        return await self.once("minutes", self._read_minutes)

    async def search(self, wanted: JobSearch) -> JobsSeen:
        """Look for a page of jobs, for a moment at most."""
        try:
            return await self.once(wanted, lambda: self._searched(wanted))
        except ValueError:
            message = f"found {(wanted.after or '')[:64]!r}, where no page begins; go to the first"
            raise HttpRefusal(422, message, field="after") from None

    async def job(self, job_id: str) -> Job | None:
        """A whole job; its bytes are read again only if it has changed."""

        async def read() -> Job | None:
            known = self._read.get(("job", job_id), (0.0, None))[1]
            revisions = await self._store.revisions([job_id])
            if known is not None and revisions.get(job_id) == known.revision:
                return known if isinstance(known, Job) else None
            (found,) = await self._store.get([job_id], payload=True)
            return found

        return await self.once(("job", job_id), read)

    def forget(self) -> None:
        """Read everything anew: something was just changed from here."""
        self._changes += 1
        self._read.clear()
        self._reading.clear()

    async def once(self, name: Any, read: Callable[[], Awaitable[T]]) -> T:
        """Return what was read a moment ago, or read it, for all who wait."""
        if (known := self._read.get(name)) and monotonic() - known[0] < FRESH_SECONDS:
            return cast(T, known[1])
        if name in self._reading:
            return cast(T, await asyncio.shield(self._reading[name]))
        changes, under_way = self._changes, asyncio.ensure_future(read())
        self._reading[name] = under_way
        try:
            found = await asyncio.shield(under_way)
        finally:
            if under_way.done():
                self._ended(name, under_way)
            else:  # whoever asked has gone; others may wait for it
                under_way.add_done_callback(lambda it: self._ended(name, it))
        if changes != self._changes:
            return found
        self._read[name] = (monotonic(), found)
        self._read.move_to_end(name)
        while len(self._read) > MOST_REMEMBERED:
            self._read.popitem(last=False)
        return found

    def _ended(self, name: Any, read: asyncio.Future[Any]) -> None:
        if self._reading.get(name) is read:
            del self._reading[name]

    async def _read_minutes(self) -> list[ActivityMinute]:
        """Read what is new: minutes that are over don't change."""
        first = minute_of(self.now) - KEPT_MINUTES
        self._minutes = {k: it for k, it in self._minutes.items() if it.minute >= first}
        newest = max((it.minute for it in self._minutes.values()), default=first)
        before, left = None, MOST_MINUTES
        limit = FEW_MINUTES if self._minutes else MANY_MINUTES
        while left > 0:
            page = await self._store.records(RecordKind.ACTIVITY, before=before, limit=limit)
            for minute in activity_in(page):
                self._minutes[minute.name] = minute
            if len(page) < limit or page[-1].name < f"{max(first, newest - 1):010d}":
                break
            limit = MANY_MINUTES
            before, left = page[-1].name, left - len(page)
        return [it for it in self._minutes.values() if it.minute >= first]

    async def _searched(self, wanted: JobSearch) -> JobsSeen:
        began, jobs = monotonic(), list[Job]()
        while True:
            seen = await self._store.search(replace(wanted, limit=wanted.limit - len(jobs)))
            jobs += seen.jobs
            is_late = monotonic() - began > SEARCH_SECONDS
            if seen.next is None or len(jobs) >= wanted.limit or is_late:
                return JobsSeen(jobs=jobs, next=seen.next, until=seen.until)
            wanted = replace(wanted, after=seen.next)
