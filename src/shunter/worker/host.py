"""What the parent process of every worker does, whatever it speaks with its dispatchers.

It starts the pool, passes on what comes of it, stops all jobs when the lease is over, and leaves
in good order. It runs no handler, so one that hogs its CPU never keeps dispatchers waiting. What
is said, and what follows from what is heard, is up to each kind of worker.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Container, Sequence

import structlog
from msgspec import Struct

from shunter.app import App
from shunter.errors import AppError
from shunter.model.final_failure import with_hooks
from shunter.model.journal import EntryKind, LiveLog, live_log_of
from shunter.model.report import Advance, Held, Report
from shunter.model.worker import MAX_HANDLERS
from shunter.net.environment import Environment
from shunter.wire.messages import Assignment
from shunter.worker.asks import JournalAnswer, KeepAsk, RunAsked
from shunter.worker.pool.process_pool import PoolSettings, ProcessPool

LOOK_SECONDS = 0.01

NO_JOURNAL = (
    "steps, sleeps, waits and streams need a worker over ZeroMQ; this one has no way to keep them: "
    "run the handler with `shunter worker`, or without them"
)
"""What a run is told on a worker over HTTP or UDP."""


class HostSettings(Struct, frozen=True, kw_only=True):
    """How long jobs may go on when the worker leaves, and who does them."""

    grace: float = 10.0
    pool: PoolSettings = PoolSettings()


class WorkerHost:
    """One worker. `run()` serves until `stop()` is called."""

    tick_seconds = 0.05
    kill_after = 0.0
    """How long after the lease the watchdog kills what we should have."""

    def __init__(
        self,
        app_spec: str,
        app: App,
        settings: HostSettings,
        environment: Environment,
        pool: Callable[..., ProcessPool],
    ) -> None:
        self._environment, self._grace = environment, settings.grace
        self._version = app.version
        self._handlers = app.declared_handlers(environment.wall())
        self._types = tuple(handler.type for handler in self._handlers)
        self._offered_types = tuple(handler.type for handler in with_hooks(self._handlers))
        self._has_hooks = len(self._offered_types) > len(self._types)
        if len(self._types) > MAX_HANDLERS:
            raise AppError(
                f"the app has {len(self._types)} types of job, and a worker may do {MAX_HANDLERS}; "
                "divide it into several apps, with workers of their own"
            )
        self._log = structlog.get_logger("shunter.worker")
        self._stopping = asyncio.Event()
        self._starting: asyncio.Timeout | None = None
        self._will_flush = False
        self._ends_at = math.inf
        self._pool = pool(app_spec, app, settings.pool, on_output=self._output_waits)

    def stop(self) -> None:
        """Leave: finish what can be finished, give back the rest, return from `run()`."""
        self._stopping.set()
        if self._starting is not None:
            self._starting.reschedule(0.0)

    async def run(self) -> None:
        """Serve; raise an AppError if no children can be started any more."""
        await self._prepare()
        try:
            if not await self._start_pool():
                return
            async with asyncio.TaskGroup() as tasks:
                await self._open(tasks)
                while not self._is_leaving and self._pool.fatal is None:
                    await self._pass_time()
                await self._leave()
            if fatal := self._pool.fatal:
                raise fatal
        finally:
            await self._pool.stop(grace=0.0)
            await self._close()
            self._log.info("stopped", action="stop")

    async def _start_pool(self) -> bool:
        """Start the pool; return False if we were told to leave before its children could."""
        try:
            async with asyncio.timeout(None) as self._starting:
                await self._pool.start()
        except TimeoutError:
            return False
        finally:
            self._starting = None
        return True

    def _tell_undeclared_limits(self, app: App, protocol: str) -> None:
        """Say that limits which the app declares count only where another worker declares them."""
        if limited := [it.type for it in app.handlers() if it.limits is not None]:
            self._log.warning(
                "limits are not declared",
                action="limits",
                types=limited,
                reason=f"workers over {protocol} have no word for them",
                remedy="run one worker over ZeroMQ, or use `shunter limits set`",
            )

    # ---- what each kind of worker does, in this order

    async def _prepare(self) -> None:
        """Get what is needed, or raise, before any child is started."""

    async def _open(self, tasks: asyncio.TaskGroup) -> None:
        """Turn to the dispatchers: the pool is up. Tasks of this group end with `_give_up`."""

    def _tick(self, now: float) -> None:
        """Do what is due; also while leaving, and when the pool has stopped."""

    def _send(self, reports: Sequence[Report], advances: Sequence[Advance]) -> None:
        """Tell of ends and progress of runs."""

    def _return_runs(self, runs: Sequence[Held], reason: str) -> None:
        """Give back runs that were ended here through no fault of their own."""

    def _ask_journals(self, asks: Sequence[RunAsked]) -> None:
        """Ask dispatchers about the journals of runs; here nobody can be, but logs are told."""
        refusal = JournalAnswer(refusal=NO_JOURNAL)
        self._pool.answer((run.key, run.asked.number, refusal) for run in asks)
        for run in asks:
            match run.asked.ask:
                case KeepAsk(kind=EntryKind.LOG, body=body) if log := live_log_of(body):
                    self._tell_log(Held(run.job.job_id, run.job.attempt), log)

    def _tell_log(self, run: Held, log: LiveLog) -> None:
        """Tell the last that a run has printed; the next time replaces it."""

    def _may_have_kept(self) -> Container[str] | None:
        """Return the jobs that may have kept steps in their first run; None if nobody knows."""
        return None

    def _lease_ends_at(self) -> float:
        """Return when all jobs must be stopped, by the lease clock."""
        return math.inf

    def _begin_anew(self, dropped: Sequence[Held]) -> None:
        """All jobs were stopped, since the lease was over: begin without any."""

    def _say_leaving(self) -> None:
        """Take nothing more from now on, and say so."""

    async def _give_up(self, undone: Sequence[Held]) -> None:
        """Say that these were stopped, and wait a while for the last answers."""

    async def _close(self) -> None:
        """Close what is open."""

    # ---- what is the same for all

    @property
    def _is_leaving(self) -> bool:
        return self._stopping.is_set()

    def _start(self, jobs: Sequence[Assignment], *, ends_at: float = math.inf) -> None:
        """Have the pool do these jobs, whose lease ends then."""
        self._watch_until(min(self._ends_at, ends_at))
        self._pool.give(jobs, begun=self._may_have_kept())

    def _watch_lease(self) -> None:
        self._watch_until(self._lease_ends_at() if self._pool.load else math.inf)

    def _watch_until(self, ends_at: float) -> None:
        """Tell the watchdog when children must have ended, in case we can't stop them ourselves."""
        self._ends_at = ends_at
        self._pool.end_by(ends_at + self.kill_after)

    def _cut_off(self) -> None:
        """No dispatcher reaches us: stop everything."""
        self._begin_anew(self._pool.destroy_jobs())

    async def _wait_until(self, is_so: Callable[[], bool], *, within: float) -> None:
        deadline = self._environment.monotonic() + within
        while not is_so() and (now := self._environment.monotonic()) < deadline:
            self._tick(now)
            await asyncio.sleep(LOOK_SECONDS)

    async def _pass_time(self) -> None:
        self._tick(self._environment.monotonic())
        if self._environment.lease_clock() >= self._lease_ends_at():
            self._cut_off()
        self._watch_lease()
        await asyncio.sleep(self.tick_seconds)

    def _output_waits(self) -> None:
        if not self._will_flush:
            self._will_flush = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Pass on all that has come of runs, gathered since the loop last came round."""
        self._will_flush = False
        if asks := self._pool.take_asks():
            self._ask_journals(asks)
        self._send(*self._pool.take_output())
        for reason, runs in self._pool.take_returned().items():
            self._return_runs(runs, reason)

    async def _leave(self) -> None:
        """Let jobs end and be reported, and only then give back the rest.

        What has not ended by then is stopped before dispatchers hear of it: they may start it
        elsewhere at once.
        """
        self.stop()
        self._say_leaving()
        async with asyncio.TaskGroup() as tasks:
            grace = 0.0 if self._pool.fatal else self._grace
            stopping = tasks.create_task(self._pool.stop(grace=grace))
            while not stopping.done():
                await self._pass_time()
        self._flush()
        await self._give_up(stopping.result())
