"""A worker behind HTTP: dispatchers call it, and it registers and reports by calls of its own.

When no dispatcher has called for as long as the last one promised, it stops all jobs and registers
anew: by then nobody else may have started them. Spec: docs/spec/http-workers.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from shunter.app import App
from shunter.key_file import KeyFile
from shunter.model.allowed_hosts import LOOPBACK, allowed_hosts
from shunter.model.job import ErrorKind, Failure
from shunter.model.journal import LiveLog
from shunter.model.report import Advance, Held, Report
from shunter.net.environment import REAL, Environment
from shunter.net.tls import CallerFiles, ServerFiles
from shunter.net.web.application import max_body_bytes
from shunter.net.web.bearer import bearing
from shunter.wire.messages import Assignment
from shunter.wire.worker_documents import MAX_JOBS
from shunter.worker.host import HostSettings, WorkerHost
from shunter.worker.http.exposures import check_exposures, new_secret
from shunter.worker.http.holdings import Holdings
from shunter.worker.http.http_lease import HttpLease
from shunter.worker.http.live_logs import LiveLogs
from shunter.worker.http.offers import Introduction, handler_schedules
from shunter.worker.http.registrar import Registrar
from shunter.worker.http.reporter import AT_ONCE, Reporter
from shunter.worker.http.routes import worker_app
from shunter.worker.http.schedule import DispatcherRing
from shunter.worker.pool.process_pool import ProcessPool
from shunter.worker.pool.shared_pool import new_pool

FAREWELL_SECONDS = 5.0
OFFER_SECONDS = 1.0
"""How long to gather new slots before dispatchers hear of them."""

RECORD_BYTES = 1 << 20
"""What a job's document may have beside its payload: a log, an error, a history."""


class HttpHostSettings(HostSettings, frozen=True, kw_only=True):
    """Where to listen, whom to call, and how patient to be.

    With a `key`, the worker shows its token, and takes calls of nobody but dispatchers.
    `quiet_after` is how long a worker that was promised nothing waits for a call before it
    registers again.
    """

    dispatchers: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 0
    hostname: str = ""
    insecure: bool = False
    quiet_after: float = 60.0
    max_message_bytes: int = 16 << 20
    key: KeyFile | None = None
    tls: ServerFiles | None = None
    trusted: CallerFiles | None = None


class HttpHost(WorkerHost):
    """One worker behind HTTP."""

    kill_after = 0.5  # dispatchers wait longer

    def __init__(
        self,
        app_spec: str,
        app: App,
        settings: HttpHostSettings,
        environment: Environment = REAL,
        pool: Callable[..., ProcessPool] = new_pool,
    ) -> None:
        super().__init__(app_spec, app, settings, environment, pool)
        self._tell_undeclared_limits(app, "HTTP")
        self._settings = settings
        self._offered_at = 0.0
        self._lease = HttpLease(quiet_after=settings.quiet_after, now=environment.lease_clock())
        self._holdings = Holdings(self._offered_types, settings.pool.slots)

    def stop(self) -> None:
        """Resign: finish what can be finished, stop the rest, return from `run()`."""
        self._holdings.closed = "this worker is leaving"
        super().stop()

    async def _prepare(self) -> None:
        settings, environment = self._settings, self._environment
        check_exposures(settings)
        secret = new_secret(environment) if settings.key else ""
        self._server = environment.http_server(
            worker_app(
                self._holdings,
                start=self._take_job,
                stop=lambda run: self._pool.cancel([run]),
                on_call=self._heard,
                max_body_bytes=max_body_bytes(settings.max_message_bytes) + RECORD_BYTES,
                hosts=allowed_hosts(
                    [*LOOPBACK, settings.host, settings.hostname or settings.host],
                    "worker.http.hostname",
                ),
                secret=secret,
            ),
            settings.host,
            settings.port,
            key="worker.http.port",
            remedy="an address of this machine that nothing else listens on, or port 0",
            tls=settings.tls,
        )
        self._caller = environment.caller(
            at_once=AT_ONCE + 3,
            headers=bearing(settings.key.token) if settings.key else None,
            tls=settings.trusted,
        )
        circle = DispatcherRing(settings.dispatchers)
        self._reporter = Reporter(
            self._caller,
            circle,
            environment,
            on_settled=self._holdings.confirmed,
            on_unknown=lambda: self._registrar.again(),
        )
        self._live_logs = LiveLogs(self._caller, circle)
        self._registrar = Registrar(
            self._caller,
            circle,
            Introduction(
                hostname=settings.hostname or settings.host,
                port=self._server.port,
                handlers=self._types,
                maxJobs=settings.pool.slots,
                scheme="https" if settings.tls else "http",
                secret=secret,
                version=self._version,
                schedules=handler_schedules(self._handlers),
                hasHooks=self._has_hooks,
            ),
            environment,
            on_registered=self._registered,
        )

    async def _open(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self._server.serve())
        await self._server.started()
        self._log.info(
            "started",
            action="start",
            host=self._settings.host,
            port=self._server.port,
            dispatchers=self._settings.dispatchers,
        )
        self._reporting = tasks.create_task(self._reporter.run())
        self._telling = tasks.create_task(self._live_logs.run())
        self._registering = tasks.create_task(self._registrar.run())
        self._registrar.offer(self._slots())

    async def _close(self) -> None:
        await self._caller.close()
        self._server.close()

    # ---- by the clock

    def _tick(self, now: float) -> None:
        is_quiet = self._lease.is_quiet(now=self._environment.lease_clock())
        if is_quiet and not self._registrar.is_busy:
            self._registrar.again()
        self._offer_new_slots(now)

    def _lease_ends_at(self) -> float:
        return self._lease.ends_at

    def _offer_new_slots(self, now: float) -> None:
        """Take as many jobs as there are children, and let dispatchers know of new ones."""
        self._holdings.max_jobs = slots = self._slots()
        is_due = now - self._offered_at >= OFFER_SECONDS or slots == self._settings.pool.slots
        if slots > self._registrar.max_jobs and is_due and not self._is_leaving:
            self._offered_at = now
            self._registrar.offer(slots)

    def _slots(self) -> int:
        """Return how many jobs can run at a time, as far as a worker may say so."""
        return min(self._pool.slots, MAX_JOBS)

    def _begin_anew(self, dropped: Sequence[Held]) -> None:
        now = self._environment.lease_clock()
        if self._lease.is_over(now=now):
            self._lease.restart(now=now)
        self._reporter.clear()
        self._live_logs.clear()
        if runs := self._holdings.clear():
            self._log.error(
                "cut off from all dispatchers, stopped all jobs",
                action="self_destruct",
                jobs=[run.job_id for run in runs],
            )
        if not self._is_leaving:
            # What was sent to us before this moment may still come in: it is another's by now.
            self._holdings.closed = "this worker was cut off and has not registered anew"
            self._registrar.again()

    # ---- from dispatchers

    def _heard(self, span: float) -> None:
        """A dispatcher called: the lease goes on, unless it was over before."""
        if self._lease.heard(span, now=self._environment.lease_clock()):
            self._cut_off()
        self._watch_lease()

    def _take_job(self, assignment: Assignment) -> None:
        self._start([assignment], ends_at=self._lease.ends_at)

    def _registered(self, worker_id: str) -> None:
        self._holdings.worker_id = worker_id
        self._lease.registered(now=self._environment.lease_clock())
        if not self._is_leaving:
            self._holdings.closed = ""

    # ---- to dispatchers

    def _send(self, reports: Sequence[Report], advances: Sequence[Advance]) -> None:
        """Hand all new reports on; of progress this protocol says nothing."""
        for report in reports:
            if offer := self._holdings.ended(Held(report.job_id, report.attempt)):
                self._live_logs.drop(offer)
                self._reporter.add(report, offer.worker_id, offer.secret)

    def _tell_log(self, run: Held, log: LiveLog) -> None:
        if (offer := self._holdings.offer_of(run)) is not None:
            self._live_logs.add(offer, log)

    def _return_runs(self, runs: Sequence[Held], reason: str) -> None:
        """Report runs as lost: this protocol has no other word for them."""
        lost = Failure(ErrorKind.LOST, reason)
        self._send([Report(run.job_id, run.attempt, error=lost) for run in runs], ())

    # ---- leaving

    def _say_leaving(self) -> None:
        self._registering.cancel()
        self._log.info("resigning", action="resign", running=self._holdings.under_way)

    async def _give_up(self, undone: Sequence[Held]) -> None:
        await self._wait_until(lambda: not len(self._reporter), within=FAREWELL_SECONDS)
        runs = self._holdings.clear()
        is_known = await self._registrar.resign(within=FAREWELL_SECONDS)
        self._log.info(
            "resigned" if is_known else "left without a dispatcher knowing",
            action="resign",
            returned_jobs=[run.job_id for run in runs],
        )
        self._reporting.cancel()
        self._telling.cancel()
        self._server.stop()
