"""What watches a dispatcher: is it up, can it work, how much does it do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import StoreError
from shunter.gateway.http.metrics import CONTENT_TYPE, MetricsSnapshot, as_text
from shunter.gateway.http.openapi import Readiness
from shunter.net.web.refusals import JsonAnswer, unavailable
from shunter.store.port import Backlog, Store

STORE_SECONDS = 1.0
"""A store that takes longer for a cheap read is not ready."""

METRICS_SECONDS = 10.0
IDLE_FACTOR = 100
"""Jobs that have ended are counted again after so many times as long as counting took."""


class EndedCounts:
    """How many jobs have ended, by type and status: known at once, and counted now and then.

    In an old store that takes long. So it is done after an answer, not before it, and so seldom
    that it takes a hundredth of the time.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._counts: list[Backlog] | None = None
        self._due = 0.0
        self._lock = asyncio.Lock()

    async def known(self, store: Store) -> list[Backlog]:
        """Return what was counted last; only the first who asks waits for it."""
        if self._counts is None:
            await self._count(store)
        return self._counts or []

    async def renew(self, store: Store) -> None:
        """Count again, if it is time; while the store fails, what was counted last counts."""
        with contextlib.suppress(StoreError):
            await self._count(store)

    async def _count(self, store: Store) -> None:
        async with self._lock:
            if (began := self._clock()) < self._due:
                return
            self._counts = await store.backlog(is_ended=True)
            ended = self._clock()
            self._due = ended + IDLE_FACTOR * (ended - began)


class Probes:
    """The routes for those who watch."""

    def __init__(self, dispatcher: Dispatcher, is_ready: Callable[[], bool]) -> None:
        self._dispatcher = dispatcher
        self._is_ready = is_ready
        self._ended = EndedCounts()

    async def healthz(self, request: Request) -> Response:
        """200 once every gateway listens, 503 before and while shutting down.

        A store that fails is told, and remains 200: to restart the dispatcher would mend nothing,
        and clients would no longer hear why their jobs can't be stored.
        """
        serves, fault = self._is_ready(), self._dispatcher.store_health.fault()
        readiness = Readiness(serves and not fault, fault)
        return JsonAnswer(readiness, status_code=200 if serves else 503)

    async def readyz(self, request: Request) -> Response:
        """200 while jobs can be served: as /healthz, and the store takes and answers."""
        self.check_ready()
        if fault := self._dispatcher.store_health.fault():
            raise unavailable(f"the store fails: {fault}")
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await self._dispatcher.store.next_alarm()
        except TimeoutError:
            message = f"the store has not answered within {STORE_SECONDS:g} s; look at its log"
            raise unavailable(message) from None
        return JsonAnswer({"ready": True})

    async def metrics(self, request: Request) -> Response:
        """Counts for Prometheus."""
        store = self._dispatcher.store
        try:
            async with asyncio.timeout(METRICS_SECONDS):
                unended, ended, oldest, workers = await asyncio.gather(
                    store.backlog(is_ended=False),
                    self._ended.known(store),
                    store.oldest(),
                    store.workers(),
                )
        except TimeoutError:
            message = f"the store has not answered within {METRICS_SECONDS:g} s; ask again later"
            raise unavailable(message) from None
        standing = MetricsSnapshot(
            backlog=[*unended, *ended],
            oldest=oldest,
            workers=workers,
            counters=self._dispatcher.counters,
            timings=self._dispatcher.view.timings,
            connected=self._dispatcher.view.connected,
            skews=self._dispatcher.view.skews,
            now=self._dispatcher.now(),
        )
        return Response(
            as_text(standing),
            media_type=CONTENT_TYPE,
            background=BackgroundTask(self._ended.renew, store),
        )

    def check_ready(self) -> None:
        """Raise a HttpRefusal unless the dispatcher serves."""
        if not self._is_ready():
            raise unavailable("the dispatcher is starting or stopping; ask again, or another one")
