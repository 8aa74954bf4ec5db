"""A worker over ZeroMQ: keeps up with its dispatchers, and divides its window among them.

When no dispatcher has answered for the lease's span it stops all jobs and goes on as a new
incarnation: by then nobody else may have started them.
Spec: docs/spec/ping-pong.md, docs/spec/jobs.md.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TypeVar

from shunter.app import App
from shunter.key_file import KeyFile
from shunter.model.lease import LeaseTerms, WorkerLease
from shunter.model.report import Advance, Held, Report
from shunter.net.environment import REAL, Environment
from shunter.refusal_log import LogThrottle
from shunter.wire.batches import batches
from shunter.wire.messages import (
    Advances,
    Assignments,
    Beat,
    CancelOrders,
    Farewell,
    Hello,
    Keeps,
    Kept,
    Kind,
    Pong,
    Recall,
    Recalled,
    Refusal,
    RefusalCode,
    Reports,
    Returned,
    Taken,
    decode,
)
from shunter.wire.pingpong import BrokerWatch
from shunter.worker.asks import Answer, RunAsked
from shunter.worker.host import HostSettings, WorkerHost
from shunter.worker.pool.process_pool import ProcessPool
from shunter.worker.pool.shared_pool import new_pool
from shunter.worker.zmq.account import Account
from shunter.worker.zmq.connection import Connection
from shunter.worker.zmq.credits import Credits
from shunter.worker.zmq.journal_relay import JournalRelay, JournalRequest
from shunter.worker.zmq.origins import Origins
from shunter.worker.zmq.outbox import Outbox, within_limit
from shunter.worker.zmq.shown_secrets import ShownSecrets

Of = TypeVar("Of", Advance, Held, Report, JournalRequest)
"""What is about one job."""

FAREWELL_SECONDS = 2.0

FAULT_AGAIN_SECONDS = 60.0
"""How long one fault of one dispatcher is not logged again."""


class ZmqWorkerSettings(HostSettings, frozen=True, kw_only=True):
    """Where the dispatchers are, and how patient to be."""

    dispatchers: tuple[str, ...]
    broker_timeout: float = 1.0
    n_timeouts: int = 3
    lease: LeaseTerms = LeaseTerms()
    key: KeyFile | None = None


class ZmqWorker(WorkerHost):
    """One worker over ZeroMQ."""

    tick_seconds = 0.1

    def __init__(
        self,
        app_spec: str,
        app: App,
        settings: ZmqWorkerSettings,
        environment: Environment = REAL,
        pool: Callable[..., ProcessPool] = new_pool,
    ) -> None:
        super().__init__(app_spec, app, settings, environment, pool)
        self.kill_after = settings.lease.kill_within / 2
        place = f"{environment.hostname()[:40]}-{environment.pid()}"
        prefix = f"{settings.key.name}:" if settings.key else ""  # by which a key's are known
        self.id = f"{prefix}w-{place}-{environment.token_bytes(4).hex()}"
        self.incarnation = 1
        self._started = environment.wall()
        self._app = app
        self._settings = settings
        self._log = self._log.bind(worker=self.id)
        self._lease = WorkerLease(settings.lease, now=environment.lease_clock())
        self._slots_told = 0
        self._outbox = Outbox()
        self._origins = Origins()
        self._secrets = ShownSecrets()
        self._relay = JournalRelay()
        self._begun: set[str] = set()
        self._credits = Credits(
            len(settings.dispatchers),
            heartbeat=settings.lease.heartbeat,
            seed=int.from_bytes(environment.token_bytes(2)),
        )
        self._context = environment.zmq_context()
        self._connections: list[Connection] = []
        self._faults = LogThrottle(FAULT_AGAIN_SECONDS)
        self._last_beat = 0
        self._max_result_bytes = sys.maxsize

    async def _open(self, tasks: asyncio.TaskGroup) -> None:
        self._lease.restart(now=self._environment.lease_clock())
        for address, account in zip(
            self._settings.dispatchers, self._credits.accounts, strict=True
        ):
            self._connections.append(self._connect(address, account))
        self._log.info("started", action="start", dispatchers=self._settings.dispatchers)

    async def _close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._context.term()

    # ---- by the clock

    def _tick(self, now: float) -> None:
        for connection in self._connections:
            heard_at = max((c.heard_at for c in self._fellows(connection)), default=0.0)
            if connection.tick(heard_at):
                self._beat(connection)
        self._offer_new_slots()
        self._share_out(now)
        for batch, reports in self._outbox.stale(now=now):
            self._send_reports(self._home_of(reports[0].job_id), batch, reports)
        if len(self._relay):
            self._relay.repeat(now=now, is_open=self._pool.open_keys())
            self._send_asks()
        if overdue := self._pool.overdue(now):
            self._give_back(overdue, "waited too long in its worker behind other jobs")

    def _beat(self, connection: Connection) -> None:
        number = self._next_beat()
        window = self._window(connection, beat=number)
        connection.send(Kind.PING, Beat(number, self.incarnation, window, tuple(self._held())))

    def _next_beat(self) -> int:
        self._last_beat = self._lease.sent(now=self._environment.lease_clock())
        return self._last_beat

    def _lease_ends_at(self) -> float:
        return self._lease.ends_at(self._origins.stores())

    def _offer_new_slots(self) -> None:
        """Tell dispatchers that have filled what there was of children that have come up."""
        slots = self._pool.slots
        if slots > self._slots_told:
            for connection in self._connections:
                account = connection.account
                if account.is_live and account.held >= account.told:
                    self._beat(connection)
        self._slots_told = slots

    def _share_out(self, now: float) -> None:
        """Divide the window among the dispatchers, and tell those that wait for it."""
        self._credits.measured(self._origins.counts())
        news = self._credits.share_out(limit=self._limit(), now=now)
        for connection in self._connections if news else ():
            if connection.account in news:
                self._beat(connection)

    def _begin_anew(self, dropped: Sequence[Held]) -> None:
        if dropped or len(self._outbox):
            self.incarnation += 1
            self._log.error(
                "cut off from all dispatchers, stopped all jobs",
                action="self_destruct",
                jobs=[held.job_id for held in dropped],
                incarnation=self.incarnation,
            )
        self._outbox.clear()
        self._origins.clear()
        self._secrets.clear()
        self._relay.clear()
        self._begun.clear()
        self._lease.restart(now=self._environment.lease_clock())
        for connection in self._connections:
            connection.close()
        for connection in self._connections:
            connection.reopen()

    # ---- to dispatchers

    def _connect(self, address: str, account: Account) -> Connection:
        settings = self._settings
        watch = BrokerWatch(
            broker_timeout=settings.broker_timeout,
            n_timeouts=settings.n_timeouts,
            ping_every=settings.lease.heartbeat,
        )
        return Connection(
            self._context,
            address,
            watch,
            account,
            on_open=self._say_ready,
            on_loss=self._lost,
            on_message=self._receive,
            on_fault=self._note_fault,
            jitter=lambda: 0.05 + 0.45 * self._environment.random(),
            curve=self._settings.key.pair if self._settings.key else None,
            environment=self._environment,
        )

    def _lost(self, connection: Connection) -> None:
        """Give its places to others, and tell those over its store what is here.

        What it had started here, but not sent, they learn of by a READY only.
        """
        was_live = connection.account.is_live
        self._credits.lost(connection.account)
        self._origins.lost(connection.account)
        for fellow in self._fellows(connection) if was_live else ():
            self._say_ready(fellow)

    def _fellows(self, connection: Connection) -> Iterator[Connection]:
        """Yield the other dispatchers over the same store that answer."""
        for other in self._connections:
            if other is not connection and other.is_alive and other.store == connection.store:
                yield other

    def _say_ready(self, connection: Connection) -> None:
        self._credits.measured(self._origins.counts())
        number = self._next_beat()
        connection.account.greeted(number)
        hello = Hello(
            self.id,
            self.incarnation,
            self._handlers,
            self._settings.pool.slots,
            number,
            hostname=self._environment.hostname(),
            pid=self._environment.pid(),
            held=tuple(self._held()),
            window=self._window(connection, beat=number),
            app_version=self._app.version,
            started=self._started,
        )
        connection.send(Kind.READY, hello)
        if self._is_leaving:
            connection.send(Kind.RESIGN, Farewell(self.id))
        for batch, reports in self._outbox.unconfirmed():
            if connection.store in ("", self._home_of(reports[0].job_id).store):
                self._send_reports(connection, batch, reports)

    def _held(self) -> Iterable[Held]:
        yield from self._pool.held()
        yield from self._outbox.held()

    def _limit(self) -> int:
        return 0 if self._is_leaving else self._pool.window

    def _window(self, connection: Connection, *, beat: int | None = None) -> int:
        """Return how many jobs a dispatcher may have here, to be sent to it now."""
        return self._credits.window(connection.account, limit=self._limit(), beat=beat)

    def _send_reports(
        self, connection: Connection, batch: int, reports: tuple[Report, ...]
    ) -> None:
        window, secrets = self._window(connection), self._secrets.of(reports)
        connection.send(Kind.RESULTS, Reports(batch, window, reports, secrets))

    def _send(self, reports: Sequence[Report], advances: Sequence[Advance]) -> None:
        """Send all that is new, one message of each kind to each dispatcher."""
        for connection, news in self._by_home(advances):
            connection.send(Kind.PROGRESS, Advances(tuple(news), self._secrets.of(news)))
        for connection, ended in self._by_home(reports):
            self._origins.reported(report.job_id for report in ended)
            sendable = [within_limit(report, self._max_result_bytes) for report in ended]
            for batch, part in self._outbox.add(sendable, now=self._environment.monotonic()):
                self._send_reports(connection, batch, part)

    # ---- journals

    def _ask_journals(self, asks: Sequence[RunAsked]) -> None:
        for run in asks:
            self._relay.ask(run)
        self._send_asks()

    def _may_have_kept(self) -> Container[str]:
        return self._begun

    def _send_asks(self) -> None:
        """Send what is asked of journals, one message to each dispatcher for all that is kept."""
        ready, self._relay.ready = self._relay.ready, []
        if ready:
            self._pool.answer(ready)
        now = self._environment.monotonic()
        for connection, requests in self._by_home(self._relay.take_unsent()):
            for request in requests:
                if (ask := request.recall) is not None:
                    number = self._relay.sent([request], now=now)
                    secret = self._secrets.of([request])[0]
                    recall = Recall(
                        number,
                        request.job_id,
                        request.attempt,
                        secret,
                        ask.kind,
                        ask.after,
                        ask.name,
                        ask.count,
                        ask.start,
                    )
                    connection.send(Kind.RECALL, recall)
            keeping = [request for request in requests if request.keeps]
            for some in batches(keeping, lambda request: request.size):
                keeps = tuple(keep for request in some for keep in request.keeps)
                number = self._relay.sent(some, now=now)
                connection.send(Kind.KEEP, Keeps(number, keeps, self._secrets.of(keeps)))

    def _answer(self, answers: Iterable[Answer]) -> None:
        self._pool.answer(answers)
        self._send_asks()

    def _by_home(self, items: Sequence[Of]) -> list[tuple[Connection, Sequence[Of]]]:
        """Sort what is to be sent about jobs by the dispatchers that are to hear of it."""
        if not items or len(self._connections) == 1:
            return [(self._connections[0], items)] if items else []
        homes: dict[Connection, list[Of]] = {}
        for item in items:
            homes.setdefault(self._home_of(item.job_id), []).append(item)
        return list(homes.items())

    def _home_of(self, job_id: str) -> Connection:
        """Return the dispatcher that a job came from, or another over its store that lives."""
        came_from = self._origins.of(job_id)
        account = came_from.account if came_from else self._connections[0].account
        origin = next(c for c in self._connections if c.account is account)
        if origin.is_alive:
            return origin
        return next(self._fellows(origin), origin)

    def _return_runs(self, runs: Sequence[Held], reason: str) -> None:
        self._give_back(runs, reason, begun=True)

    def _give_back(self, jobs: Sequence[Held], reason: str, *, begun: bool = False) -> None:
        for connection, mine in self._by_home(jobs):
            self._return(connection, mine, reason, begun=begun)
            ids = (held.job_id for held in mine)
            self._origins.returned(ids, connection.account, after=self._last_beat)

    def _return(
        self,
        connection: Connection,
        jobs: Sequence[Held],
        reason: str,
        window: int | None = None,
        *,
        begun: bool = False,
    ) -> None:
        """Give back jobs, and say for the last time that they were ours."""
        window = self._window(connection) if window is None else window
        returned = Returned(window, tuple(jobs), reason, self._secrets.of(jobs), begun)
        connection.send(Kind.RETURN, returned)
        self._secrets.done_with(jobs)

    # ---- from dispatchers

    def _receive(self, connection: Connection, kind: Kind, body: bytes | bytearray) -> None:
        match kind:
            case Kind.JOBS:
                self._take_jobs(connection, decode(body, Assignments))
            case Kind.TAKEN:
                reports = self._outbox.confirmed(decode(body, Taken).batches)
                self._origins.confirmed(report.job_id for report in reports)
                self._secrets.done_with(reports)
                self._begun.difference_update(report.job_id for report in reports)
                if self._credits.is_blocked:
                    self._share_out(self._environment.monotonic())
            case Kind.KEEP:
                kept = decode(body, Kept)
                self._answer(self._relay.kept(kept.request, kept.is_kept))
            case Kind.RECALL:
                recalled = decode(body, Recalled)
                self._answer(self._relay.recalled(recalled.request, recalled))
            case Kind.CANCEL:
                self._pool.cancel(decode(body, CancelOrders).jobs)
            case Kind.PONG:
                self._take_pong(connection, decode(body, Pong))
            case Kind.ERROR:
                refusal = decode(body, Refusal)
                self._note_fault(connection, refusal.reason)
                if refusal.code is RefusalCode.UNKNOWN_WORKER:
                    self._credits.forgotten(connection.account)
                    self._say_ready(connection)
            case _:
                self._note_fault(connection, f"{kind} is not for a worker to receive")

    def _take_pong(self, connection: Connection, pong: Pong) -> None:
        now, account = self._environment.monotonic(), connection.account
        connection.store = pong.store
        self._lease.answered(pong.beat, pong.store)
        self._watch_lease()
        self._max_result_bytes = min(self._max_result_bytes, pong.max_result_bytes)
        self._origins.answered(account, pong.beat)
        if self._credits.answered(
            account, pong.beat, dispatcher_id=pong.dispatcher_id, store=pong.store, now=now
        ):
            self._share_out(now)

    def _take_jobs(self, connection: Connection, assignments: Assignments) -> None:
        """Take jobs, unless they come too late: others may have them by now."""
        jobs, reason = assignments.jobs, ""
        self._secrets.took(jobs, assignments.secrets)
        self._begun.update(assignments.begun)
        if self._is_leaving:
            reason = "its worker is resigning"
        elif self._lease.is_over(now=self._environment.lease_clock(), stores=[connection.store]):
            reason = "it reached its worker after the lease was over"
        if reason:
            self._return(connection, [Held(job.job_id, job.attempt) for job in jobs], reason)
            return
        known = set(self._held())
        new = [job for job in jobs if Held(job.job_id, job.attempt) not in known]
        account, limit = connection.account, self._limit()
        room = self._credits.room(account, limit=limit, at_work=self._pool.load)
        if surplus := new[room:]:
            # Its dispatcher has lost count; the next beat tells it what is here, and the window.
            window = self._credits.window(account, limit=0)
            held = [Held(job.job_id, job.attempt) for job in surplus]
            self._return(connection, held, "its worker had no room for it", window)
            new = new[:room]
        self._credits.took(account, len(new))
        self._origins.took((job.job_id for job in new), account)
        self._start(new, ends_at=self._lease.ends_at([connection.store]))

    def _note_fault(self, connection: Connection, reason: str) -> None:
        # A worker on the wrong port would say the same with each heartbeat.
        if self._faults.admit((connection.address, reason), now=self._environment.monotonic()):
            self._log.warning(reason, action="fault", dispatcher=connection.address)

    # ---- leaving

    def _say_leaving(self) -> None:
        self._log.info("resigning", action="resign", running=self._pool.running())
        for connection in self._connections:
            connection.send(Kind.RESIGN, Farewell(self.id))
        self._give_back(self._pool.recall(), "its worker is resigning")

    async def _give_up(self, undone: Sequence[Held]) -> None:
        self._give_back(undone, "its worker resigned before it was done", begun=True)
        await self._wait_until(lambda: not len(self._outbox), within=FAREWELL_SECONDS)
