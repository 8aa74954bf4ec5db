"""One dispatcher process: the store, the dispatcher, its gateways and its sweeps, in one loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import structlog
import zmq

from shunter.dispatch import sweep
from shunter.dispatch.activity_writer import ActivityWriter
from shunter.dispatch.alarm_clock import AlarmClock
from shunter.dispatch.declarations import Declarations
from shunter.dispatch.dispatcher import Dispatcher, heed_cancellation
from shunter.dispatch.pauses import forget_drained, heed_pauses
from shunter.dispatch.tick_sweep import TickSweep
from shunter.errors import JobError, SettingsError, StoreError
from shunter.gateway.callbacks import CallbackCaller
from shunter.gateway.clocks import SteadyClock, host_clock
from shunter.gateway.http.application import http_app
from shunter.gateway.http.page_port import PageMount, PageOptions
from shunter.gateway.http.worker_calls import HttpWorkers
from shunter.gateway.ids import Ids
from shunter.gateway.key_list import REFRESH_SECONDS
from shunter.gateway.service_rules import (
    caller_files_of,
    check_exposures,
    health_rules_of,
    http_files_of,
    key_list_of,
    rules_of,
    udp_rules_of,
)
from shunter.gateway.udp.gateway import UdpGateway
from shunter.gateway.udp.key_look_up import udp_keys
from shunter.gateway.zmq.backend import Backend
from shunter.gateway.zmq.frontend import Frontend
from shunter.model.allowed_hosts import allowed_hosts
from shunter.model.job import Job, in_one_line
from shunter.model.presence import Skews
from shunter.model.redaction import redacted_url
from shunter.model.run_secrets import RunSecrets
from shunter.net.curve import CurveGate, CurveListener
from shunter.net.environment import REAL, Environment
from shunter.net.tls import CallerFiles
from shunter.net.transport import ZmqContext
from shunter.net.web.server import HttpServer
from shunter.refusal_log import RefusalLog
from shunter.secret_file import secret_of
from shunter.settings import Settings
from shunter.store.key_records import SECRET_BYTES
from shunter.store.port import Store
from shunter.store.registry import store_mark

ALARM_SECONDS = 0.1
CATCH_UP_SECONDS = 0.5
SWEEP_SECONDS = 1.0
LEAST_REFRESH_SECONDS = 0.1
"""Strangers with unknown keys don't have the list read more often than this."""
HOUSEKEEPING_SECONDS = 60.0
PRESENCE_SECONDS = 5.0
ACTIVITY_SECONDS = 5.0
FAR_OFF_SECONDS = 2.0
"""From here on a difference between clocks is worth a word."""
PURGE_PAUSE_SECONDS = 0.05

WORKER_HOSTS = "dispatcher.workers.allowed_hosts"
ELSEWHERE = "an address of this machine that nothing else listens on, or http.enabled = false"


class Service:
    """A dispatcher with its gateways. `run()` serves until `stop()` is called."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        environment: Environment = REAL,
        *,
        page: PageMount | None = None,
    ) -> None:
        self._settings = settings
        self._page = None if settings.http.page == "off" else page
        self._environment = environment
        self._store = store
        self._log = structlog.get_logger("shunter.dispatcher")
        self._verification_seconds = settings.dispatcher.jobs.job_verification_interval / 1000
        self._stopping = asyncio.Event()
        self._max_connections = environment.max_connections()
        self.ready = asyncio.Event()
        self.before_stop: Callable[[], Awaitable[None]] | None = None
        self._new_id = Ids(environment).new
        self._clock = SteadyClock(environment.wall, environment.monotonic)
        self._host_clock, self._skews = host_clock(environment), Skews()
        self._told_skews: set[str] = set()
        self.dispatcher = Dispatcher(
            store,
            dispatcher_id=f"d-{self._new_id()}",
            rules=rules_of(settings),
            now=self._clock,
            jitter=environment.random,
            on_refused=self._refused,
            on_failed=self._job_failed,
            on_store_error=self._store_failed,
            version=version("shunter"),
        )
        self._keys = key_list_of(settings)
        self._keys_read_at = 0.0
        self._run_secrets = RunSecrets(are_required=self._keys.is_on)
        self._observed = self.dispatcher.store_health.observed
        self._alarm_clock, self._tick_due = AlarmClock(), asyncio.Event()
        self._activity_writer = ActivityWriter()
        self._refusals = RefusalLog(self.dispatcher.counters)
        self._backend = Backend(
            self.dispatcher,
            self._refusals,
            worker_expire_seconds=settings.zmq.worker_expire_seconds,
            max_result_bytes=settings.zmq.max_message_bytes,
            store=store_mark(settings.store.url),
            keys=self._keys,
            run_secrets=self._run_secrets,
            environment=environment,
        )
        self._frontend = Frontend(
            self.dispatcher,
            self._refusals,
            new_id=self._new_id,
            keys=self._keys,
            environment=environment,
        )
        self._udp = UdpGateway(
            self.dispatcher,
            self._refusals,
            udp_rules_of(settings),
            new_id=self._new_id,
            keys=udp_keys(self._keys, secret_of(settings)),
            environment=environment,
        )
        self._http_workers = HttpWorkers(
            self.dispatcher,
            health_rules_of(settings),
            run_secrets=self._run_secrets,
            hosts=allowed_hosts(settings.dispatcher.workers.allowed_hosts, WORKER_HOSTS),
            keys=self._keys,
            tls=caller_files_of(settings.auth),
            environment=environment,
        )
        self._ticks = TickSweep(self.dispatcher, new_id=self._new_id, tell=self._note_schedule)
        self._declarations = Declarations(
            self.dispatcher, self._ticks.timetable, tell=self._note_schedule
        )
        self._gate: CurveGate | None = None
        trusted = CallerFiles(ca=settings.auth.ca_file)  # strangers are shown no certificate
        self._messenger = CallbackCaller(self.dispatcher, tls=trusted, environment=environment)

    def stop(self) -> None:
        """Finish the turn under way, then return from `run()`."""
        self._stopping.set()

    async def run(self) -> None:
        check_exposures(self._settings)
        self._environment.tune_process()
        await self._store.open()
        await self._keys.open(self._store, self._environment.token_bytes(SECRET_BYTES))
        self._run_secrets.use(self._keys.secret)
        await heed_pauses(self.dispatcher)
        await self._learn_limits()
        context = self._environment.zmq_context()
        try:
            if self._settings.zmq.enabled:
                self._bind(context)
            if self._settings.udp.enabled:
                self._listen_udp()
            await self._serve()
        finally:
            self.ready.clear()
            if self._settings.zmq.enabled:
                self._close()
            self._udp.close()
            context.term()
            await self._http_workers.close()
            await self._messenger.close()
            await self._store.close()
            self._log.info("stopped", action="stop", dispatcher=self.dispatcher.id)

    async def _serve(self) -> None:
        server = self._http_server() if self._settings.http.enabled else None
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.dispatcher.run()),
                group.create_task(self._every(ALARM_SECONDS, self._ring_alarms)),
                group.create_task(self._tick_when_due()),
                group.create_task(self._every(CATCH_UP_SECONDS, self._catch_up)),
                group.create_task(self._every(SWEEP_SECONDS, self._sweep)),
                group.create_task(self._every(PRESENCE_SECONDS, self._meet_others)),
                group.create_task(self._every(ACTIVITY_SECONDS, self._tell_activity)),
                group.create_task(self._every(self._verification_seconds, self._verify)),
                group.create_task(self._every(HOUSEKEEPING_SECONDS, self._keep_house)),
                group.create_task(self._frontend.answer_questions()),
                group.create_task(self._backend.journals.answer_recalls()),
                group.create_task(self._frontend.perform_audited()),
                group.create_task(self._frontend.carry_out_schedules()),
                group.create_task(self._watch()),
            ]
            if self._keys.is_on:
                tasks.append(group.create_task(self._every(REFRESH_SECONDS, self._refresh_keys)))
            calls = group.create_task(self._messenger.run())
            if server is not None:
                group.create_task(server.serve())
                await server.started()
            self.ready.set()
            self._log.info(
                "ready",
                action="start",
                dispatcher=self.dispatcher.id,
                frontend=self._settings.zmq.frontend,
                backend=self._settings.zmq.backend,
                store=redacted_url(self._settings.store.url),
            )
            await self._stopping.wait()
            self.ready.clear()
            if self.before_stop is not None:
                await self.before_stop()
            if server is not None:
                server.stop()
            if self._settings.zmq.enabled:
                self._frontend.socket.pause()
                self._backend.socket.pause()
            await self._messenger.finish()
            calls.cancel()
            await asyncio.wait([calls])
            await self._settle()
            for task in tasks:
                task.cancel()

    def _http_server(self) -> HttpServer:
        http = self._settings.http
        app = http_app(
            self.dispatcher,
            self._http_workers,
            self._refusals,
            run_secrets=self._run_secrets,
            is_ready=self.ready.is_set,
            new_id=self._new_id,
            hosts=allowed_hosts([*http.allowed_hosts, http.host], "http.allowed_hosts"),
            keys=self._keys,
            declarations=self._declarations,
            page=self._page,
            page_options=PageOptions(
                is_secure=bool(http.tls_certificate), may_change=http.page == "on"
            ),
        )
        return self._environment.http_server(
            app,
            http.host,
            http.port,
            key="http.port",
            remedy=ELSEWHERE,
            tls=http_files_of(http),
            max_connections=self._max_connections,
        )

    async def _settle(self) -> None:
        """Give what has arrived a moment to be committed and answered."""
        deadline = self._environment.monotonic() + 2.0
        while self.dispatcher.has_work and self._environment.monotonic() < deadline:
            await asyncio.sleep(0.01)

    def _bind(self, context: ZmqContext) -> None:
        zmq_settings = self._settings.zmq
        curve = None
        if self._keys.own is not None:
            curve = CurveListener(self._keys.own.pair, self._keys.is_known)
            self._gate = self._environment.curve_gate(context, self._admits)
        for side, key, address in (
            (self._frontend, "zmq.frontend", zmq_settings.frontend),
            (self._backend, "zmq.backend", zmq_settings.backend),
        ):
            try:
                side.socket = self._environment.bound_router(
                    context,
                    address,
                    side.receive,
                    max_message_bytes=2 * zmq_settings.max_message_bytes + 1024 * 1024,
                    high_water_mark=zmq_settings.high_water_mark,
                    max_connections=self._max_connections,
                    curve=curve,
                )
            except zmq.ZMQError as error:
                raise SettingsError(
                    "the system",
                    key,
                    f"{address}, which can't be bound ({error})",
                    "an address of this machine that nothing else listens on",
                ) from None

    def _listen_udp(self) -> None:
        where = self._settings.udp.client_address
        try:
            self._udp.open(where.host, where.port)
        except OSError as error:
            raise SettingsError(
                "the system",
                "udp.client_address.port",
                f"{where.host}:{where.port}, which can't be bound ({error.strerror})",
                "an address of this machine that nothing else listens on, or udp.enabled = false",
            ) from None
        self._messenger.udp = self._udp.clients

    def _close(self) -> None:
        if self._gate is not None:
            self._gate.close()
        for side in (self._frontend, self._backend):
            if hasattr(side, "socket"):
                side.socket.close()

    # ---- what happens by the clock

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._act(action, is_observed=seconds <= SWEEP_SECONDS)
            await asyncio.sleep(seconds)

    async def _tick_when_due(self) -> None:
        while True:
            await self._tick_due.wait()
            await self._act(self._tick, is_observed=True)
            self._tick_due.clear()

    async def _act(self, action: Callable[[], Awaitable[None]], *, is_observed: bool) -> None:
        """Do one of the things that happen by the clock; a store that fails ends none of them."""
        kind = action.__name__.lstrip("_")
        try:
            with self._observed(kind) if is_observed else contextlib.nullcontext():
                await action()
            self.dispatcher.counters[f"sweeps_{kind}"] += 1
        except StoreError as error:
            self._store_failed(error)
            heed_cancellation()

    async def _watch(self) -> None:
        """Hear of jobs that other dispatchers have accepted, as soon as the store can tell."""
        while True:
            try:
                await self._store.watch(self.dispatcher.expect_waiting)
                return
            except StoreError as error:
                self._store_failed(error)
                heed_cancellation()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _ring_alarms(self) -> None:
        if self._settings.zmq.enabled:
            self._backend.tick()
            self._frontend.tick()
            cut_off = self._frontend.socket.cut_off + self._backend.socket.cut_off
            self.dispatcher.counters["connections_cut_off"] = cut_off
        if self._settings.udp.enabled:
            self._udp.tick()
        if self._ticks.is_due or self._declarations.is_due:
            self._tick_due.set()
        await sweep.watch_the_clock(self.dispatcher, self._alarm_clock)

    async def _tick(self) -> None:
        await sweep.tick(self._ticks, self._declarations)

    async def _sweep(self) -> None:
        await heed_pauses(self.dispatcher)
        self.dispatcher.expect_waiting()
        self.dispatcher.heard([*self._backend.plain_worker_ids(), *self._udp.worker_ids()])
        await self._share_limits()
        workers = await sweep.survey(self.dispatcher, self._http_workers)
        await self._http_workers.sweep(workers)

    async def _learn_limits(self) -> None:
        """Know which types are limited, and which have hooks, before anything is decided."""
        while not self._stopping.is_set():
            try:
                await self._share_limits()
                await sweep.learn_hooks(self.dispatcher)
            except StoreError as error:
                self._store_failed(error)
                heed_cancellation()
                await asyncio.sleep(SWEEP_SECONDS)
            else:
                return

    async def _share_limits(self) -> None:
        for notice in await sweep.share_limits(self.dispatcher):
            self._log.warning("limits differ", action="limits", notice=notice)

    async def _admits(self, public: str) -> bool:
        """True if a peer may come in; its key may have been made a moment ago."""
        if not self._keys.is_known(public):
            now = self._environment.monotonic()
            if now - self._keys_read_at >= LEAST_REFRESH_SECONDS:
                with contextlib.suppress(StoreError):
                    await self._refresh_keys()
        return self._keys.is_known(public)

    async def _refresh_keys(self) -> None:
        self._keys_read_at = self._environment.monotonic()
        await self._keys.refresh(self._store)

    async def _catch_up(self) -> None:
        await sweep.go_through(self.dispatcher, *sweep.OFTEN)

    async def _meet_others(self) -> None:
        """Compare clocks, and say once of each that is far off."""
        company = await sweep.meet_others(self.dispatcher, self._skews, self._host_clock)
        known = dict(company.skews)
        if abs(jump := self._clock.jumped_by) >= FAR_OFF_SECONDS:
            known[f"{self.dispatcher.id} (the time of day, set anew)"] = -jump
        for name, skew in known.items():
            if abs(skew) >= FAR_OFF_SECONDS and name not in self._told_skews:
                self._told_skews.add(name)
                self._log.warning(
                    "clocks differ; delayed jobs start early or late by as much",
                    action="clock",
                    other=name,
                    ahead_by=round(skew, 1),
                    remedy="synchronise the hosts' clocks (NTP), then restart what is off",
                )

    async def _tell_activity(self) -> None:
        await sweep.tell_activity(self.dispatcher, self._activity_writer)

    async def _verify(self) -> None:
        await sweep.go_through(self.dispatcher, *sweep.NOW_AND_THEN)

    async def _keep_house(self) -> None:
        await sweep.go_through(self.dispatcher, *sweep.RARELY)
        await forget_drained(self.dispatcher)
        self._backend.forget_gone()
        while await sweep.purge(self.dispatcher) >= sweep.PURGED_AT_ONCE:
            await asyncio.sleep(PURGE_PAUSE_SECONDS)

    def _job_failed(self, job: Job) -> None:
        self._log.warning(
            "a job failed",
            action="fail",
            type=job.type,
            job=job.id,
            attempt=job.attempt,
            error=in_one_line(job.error),
        )

    def _store_failed(self, error: StoreError) -> None:
        self._log.error("the store fails, trying again", action="store", error=str(error))

    def _note_schedule(self, name: str, text: str) -> None:
        self._log.warning(text, action="schedule", schedule=name)

    def _refused(self, worker_id: str, error: JobError) -> None:
        self._refusals.note(worker_id, type(error).__name__, str(error))
