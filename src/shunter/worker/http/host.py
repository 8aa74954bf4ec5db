"""A worker behind HTTP: serves dispatchers, keeps the lease, and leads the pool.

It runs no handler itself, so a handler that hogs its CPU never keeps a health check waiting. When
no dispatcher has called for as long as the last one promised, it stops all jobs and registers
anew: by then nobody else may have started them. Spec: docs/spec/http-workers.md.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog
from msgspec import Struct

from shunter.app import App
from shunter.model.report import Held
from shunter.net.calling import Caller
from shunter.net.web.answering import max_body_bytes
from shunter.net.web.server import bound_listener, http_server
from shunter.wire.messages import Assignment
from shunter.worker.http.holdings import Holdings
from shunter.worker.http.http_lease import HttpLease
from shunter.worker.http.offers import Introduction
from shunter.worker.http.registrar import Registrar
from shunter.worker.http.reporter import AT_ONCE, Reporter
from shunter.worker.http.routes import worker_app
from shunter.worker.http.schedule import DispatcherRing
from shunter.worker.pool.process_pool import PoolSettings, ProcessPool
from shunter.worker.pool.watchdog import lease_clock

TICK_SECONDS = 0.05
FAREWELL_SECONDS = 5.0
KILL_SECONDS = 0.5
"""How long after the lease the watchdog kills what we should have: dispatchers wait longer."""

OFFER_SECONDS = 1.0
"""How long to gather new slots before dispatchers hear of them."""

RECORD_BYTES = 1 << 20
"""What a job's document may have beside its payload: a log, an error, a history."""


class HttpHostSettings(Struct, frozen=True, kw_only=True):
    """Where to listen, whom to call, and how patient to be.

    `quiet_after` is how long a worker that was promised nothing waits for a call before it
    registers again.
    """

    dispatchers: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 0
    hostname: str = ""
    grace: float = 10.0
    quiet_after: float = 60.0
    max_message_bytes: int = 16 << 20
    pool: PoolSettings = PoolSettings()


class HttpHost:
    """One worker. `run()` serves until `stop()` is called."""

    def __init__(
        self,
        app_spec: str,
        app: App,
        settings: HttpHostSettings,
        *,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._spread = spread
        self._log = structlog.get_logger("shunter.worker")
        self._stopping = asyncio.Event()
        self._is_resigning = False
        self._will_flush = False
        self._offered_at = 0.0
        self._lease = HttpLease(quiet_after=settings.quiet_after, now=lease_clock())
        types = tuple(handler.type for handler in app.handlers())
        self._holdings = Holdings(types, settings.pool.slots)
        self._pool = ProcessPool(app_spec, app, settings.pool, on_output=self._output_waits)

    def stop(self) -> None:
        """Resign: finish what can be finished, stop the rest, return from `run()`."""
        self._refuse_more()
        self._stopping.set()

    async def run(self) -> None:
        settings = self._settings
        listener = bound_listener(
            settings.host,
            settings.port,
            key="worker.http.port",
            remedy="an address of this machine that nothing else listens on, or port 0",
        )
        port: int = listener.getsockname()[1]
        caller = Caller(at_once=AT_ONCE + 2)
        circle = DispatcherRing(settings.dispatchers)
        self._reporter = Reporter(
            caller,
            circle,
            spread=self._spread,
            on_settled=self._holdings.confirmed,
            on_unknown=lambda: self._registrar.again(),
        )
        self._registrar = Registrar(
            caller,
            circle,
            Introduction(
                hostname=settings.hostname or settings.host,
                port=port,
                handlers=self._holdings.types,
                maxJobs=settings.pool.slots,
            ),
            spread=self._spread,
            on_registered=self._registered,
        )
        server = http_server(
            worker_app(
                self._holdings,
                start=self._start,
                stop=lambda run: self._pool.cancel([run]),
                on_call=self._heard,
                max_body_bytes=max_body_bytes(settings.max_message_bytes) + RECORD_BYTES,
            )
        )
        try:
            await self._pool.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(server.serve(sockets=[listener]))
                while not server.started:
                    await asyncio.sleep(0.01)
                self._log.info(
                    "started",
                    action="start",
                    host=settings.host,
                    port=port,
                    dispatchers=settings.dispatchers,
                )
                await self._work(group)
                server.should_exit = True
            if fatal := self._pool.fatal:
                raise fatal
        finally:
            await self._pool.stop(grace=0.0)
            await caller.close()
            listener.close()
            self._log.info("stopped", action="stop")

    async def _work(self, group: asyncio.TaskGroup) -> None:
        reporting = group.create_task(self._reporter.run())
        registering = group.create_task(self._registrar.run())
        self._registrar.offer(self._pool.slots)
        while not self._stopping.is_set() and self._pool.fatal is None:
            self._tick()
            await asyncio.sleep(TICK_SECONDS)
        registering.cancel()
        await self._resign()
        reporting.cancel()

    # ---- by the clock

    def _tick(self) -> None:
        now = lease_clock()
        if self._lease.is_over(now=now):
            self._lease.restart(now=now)
            self._cut_off()
        self._watch_lease()
        if self._lease.is_quiet(now=now) and not self._registrar.is_busy:
            self._registrar.again()
        self._offer_new_slots(now)

    def _watch_lease(self) -> None:
        """Tell the watchdog when children must have ended, in case we can't stop them ourselves."""
        ends_at = self._lease.ends_at
        has_jobs = self._holdings.under_way > 0
        self._pool.end_by(ends_at + KILL_SECONDS if has_jobs and ends_at is not None else None)

    def _offer_new_slots(self, now: float) -> None:
        """Take as many jobs as there are children, and let dispatchers know of new ones."""
        self._holdings.max_jobs = slots = self._pool.slots
        is_due = now - self._offered_at >= OFFER_SECONDS or slots == self._settings.pool.slots
        if slots > self._registrar.max_jobs and is_due and not self._is_resigning:
            self._offered_at = now
            self._registrar.offer(slots)

    def _cut_off(self) -> None:
        """No dispatcher reaches us: stop everything, begin anew with nothing."""
        self._pool.destroy_jobs()
        self._reporter.clear()
        if dropped := self._holdings.clear():
            self._log.error(
                "cut off from all dispatchers, stopped all jobs",
                action="self_destruct",
                jobs=[run.job_id for run in dropped],
            )
        if not self._is_resigning:
            # What was sent to us before this moment may still come in: it is another's by now.
            self._holdings.closed = "this worker was cut off and has not registered anew"
            self._registrar.again()

    # ---- from dispatchers

    def _heard(self, span: float) -> None:
        """A dispatcher called: the lease goes on, unless it was over before."""
        if self._lease.heard(span, now=lease_clock()):
            self._cut_off()
        self._watch_lease()

    def _start(self, assignment: Assignment) -> None:
        self._watch_lease()
        self._pool.give([assignment])

    def _registered(self, worker_id: str) -> None:
        self._holdings.worker_id = worker_id
        self._lease.registered(now=lease_clock())
        if not self._is_resigning:
            self._holdings.closed = ""

    # ---- to dispatchers

    def _output_waits(self) -> None:
        if not self._will_flush:
            self._will_flush = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Hand all new reports on; of progress this protocol says nothing."""
        self._will_flush = False
        reports, _ = self._pool.take_output()
        for report in reports:
            if offer := self._holdings.ended(Held(report.job_id, report.attempt)):
                self._reporter.add(report, offer.worker_id)

    # ---- leaving

    def _refuse_more(self) -> None:
        self._is_resigning = True
        self._holdings.closed = "this worker is leaving"

    async def _resign(self) -> None:
        """Take nothing more, let jobs end and be reported, and only then give back the rest.

        What has not ended by then is stopped before dispatchers hear of it: they may start it
        elsewhere at once.
        """
        self._refuse_more()
        self._log.info("resigning", action="resign", running=self._holdings.under_way)
        grace = 0.0 if self._pool.fatal else self._settings.grace
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(self._pool.stop(grace=grace))
            while not stopping.done():
                self._tick()
                await asyncio.sleep(TICK_SECONDS)
        self._flush()
        deadline = lease_clock() + FAREWELL_SECONDS
        while len(self._reporter) and lease_clock() < deadline:
            await asyncio.sleep(0.01)
        undone = self._holdings.clear()
        is_known = await self._registrar.resign(within=FAREWELL_SECONDS)
        self._log.info(
            "resigned" if is_known else "left without a dispatcher knowing",
            action="resign",
            returned_jobs=[run.job_id for run in undone],
        )
