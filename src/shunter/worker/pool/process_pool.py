"""The jobs of a worker and the child processes that do them.

The pool decides which run is whose, when one must end, and what its outcome is: a result, a
failure, or the loss of its process. It knows nothing of dispatchers; a worker gives it jobs and
takes reports. All methods are called on the loop's thread, which must live as long as the pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from time import monotonic

import structlog
from msgspec import Struct

from shunter.app import App
from shunter.errors import AppError
from shunter.model.job import ErrorKind, in_one_line
from shunter.model.job_log import LIVE_LOG_BYTES
from shunter.model.journal import LIVE_LOG, EntryKind
from shunter.model.report import Advance, Held, Report
from shunter.wire.messages import Assignment
from shunter.worker.asks import Answer, KeepAsk, RunAsk, RunAsked
from shunter.worker.pool.child_queue import ChildQueue
from shunter.worker.pool.child_supervisor import ChildSupervisor
from shunter.worker.pool.escalation import Push
from shunter.worker.pool.frames import (
    Frame,
    Mark,
    answered,
    read_last_progress,
    read_logged_failure,
    read_logged_result,
    read_run_ask,
)
from shunter.worker.pool.job_window import JobWindow, waited_too_long
from shunter.worker.pool.runs import Runs
from shunter.worker.pool.slot import ChildSettings, Slot
from shunter.worker.pool.unaccounted_runs import UnaccountedRuns
from shunter.worker.pool.watchdog_process import WatchdogProcess
from shunter.worker.procfs import is_asleep
from shunter.worker.run_seal import RunSeal

TICK_SECONDS = 0.05

LOOK_AT_LOGS = 20
"""After so many ticks it is looked what runs have printed."""

GIVE_BACK_AFTER_SECONDS = 0.5
LEAVE_SECONDS = 2.0
SPARE_CELLS = 64

_RESULT = int(Mark.RESULT)


class PoolSettings(Struct, frozen=True, kw_only=True):
    """How many children, and what they may take."""

    slots: int = 2
    grace: float = 1.0
    max_jobs_per_child: int = 100_000
    max_child_megabytes: int | None = None
    log_limit: int = 64 << 10
    live_log_bytes: int = LIVE_LOG_BYTES
    result_limit: int | None = None
    max_block: float = 5.0
    window_target: float = 0.02
    window_ceiling: int = 1024


class ProcessPool:
    """Does jobs. `on_output` is called when there is output or something to return, or `fatal`."""

    is_shared = False
    """True if several jobs may be in a child at a time."""

    def __init__(
        self, app_spec: str, app: App, settings: PoolSettings, *, on_output: Callable[[], None]
    ) -> None:
        self._spec, self._settings, self._on_output = app_spec, settings, on_output
        self._app = app
        self._runs = Runs(app.handlers(), grace=settings.grace)
        self._unaccounted = UnaccountedRuns()
        self._window = JobWindow(
            settings.slots, target=settings.window_target, ceiling=settings.window_ceiling
        )
        self._askers: dict[tuple[int, int], Slot] = {}
        self._is_announced = False
        self._is_watching = False
        self._is_started = False
        self._is_stopping = False
        self._ticks = 0

    async def __aenter__(self) -> ProcessPool:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(grace=0.0)

    async def start(self) -> None:
        """Begin to start children; return when one has imported the app, or raise an AppError."""
        self._loop = asyncio.get_running_loop()
        self._is_idle = asyncio.Event()
        self._queue = ChildQueue()
        self._watchdog = WatchdogProcess(SPARE_CELLS + 2 * self._settings.slots)
        self._supervisor = ChildSupervisor(
            self._settings.slots,
            ChildSettings(
                app=self._spec,
                max_jobs=self._settings.max_jobs_per_child,
                max_megabytes=self._settings.max_child_megabytes,
                log_limit=self._settings.log_limit,
                live_log_bytes=self._settings.live_log_bytes,
                result_limit=self._settings.result_limit,
                is_shared=self.is_shared,
            ),
            self._queue,
            self._watchdog,
            on_frames=self._take_frames,
            on_death=self._bury,
            on_fatal=self._announce,
        )
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        self._is_started = True
        try:
            await self._supervisor.start()
        except BaseException:
            await self.stop(grace=0.0)
            raise

    async def stop(self, *, grace: float) -> list[Held]:
        """Let running jobs end within `grace` seconds, kill the rest, and return the undone.

        May be called again, also after it was cancelled half way.
        """
        if not self._is_started:
            return []
        self._is_stopping = True
        undone = self.recall()
        self._is_idle.clear()
        if self._runs.open and grace > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._is_idle.wait()
        undone += self._drop_jobs("its worker stopped before it was done")
        if self._is_watching:
            self._loop.remove_writer(self._queue.entry_fd)
            self._is_watching = False
        self._end_of_jobs()
        await self._supervisor.leave(within=LEAVE_SECONDS)
        self._timer.cancel()
        self._queue.close()
        self._watchdog.close()
        self._is_started = False
        return undone

    @property
    def fatal(self) -> AppError | None:
        """Why no more children can be started, with what the last one printed."""
        return self._supervisor.fatal

    @property
    def window(self) -> int:
        """How many jobs it is worth giving to this pool at a time."""
        self._window.slots = self._supervisor.offered
        return self._window.limit

    @property
    def slots(self) -> int:
        """How many jobs can run at a time by now; more as children come up."""
        return self._supervisor.offered

    @property
    def load(self) -> int:
        """How many jobs are here, running or waiting."""
        return len(self._runs.open)

    def give(self, jobs: Sequence[Assignment], *, begun: Container[str] | None = None) -> None:
        """Take these jobs on; each ends in a report unless it is recalled or destroyed.

        `begun` are jobs that may have kept steps in their first run; None if nobody knows which.
        """
        now = monotonic()
        for job in jobs:
            self._queue.put(self._runs.add(job, now=now, begun=begun), job)
        self._pump()

    def end_by(self, deadline: float | None) -> None:
        """Have all children killed at this time by `lease_clock()`, even if this process is frozen.

        To be set anew with each renewal of the lease, and to None when there is no job.
        """
        self._watchdog.end_by(deadline)

    def held(self) -> tuple[Held, ...]:
        """Return all jobs that are here, running or waiting."""
        return tuple(self._runs.held())

    def running(self) -> int:
        """Return how many children are at work."""
        return len(self._running())

    def take_output(self) -> tuple[list[Report], list[Advance]]:
        """Return what is new; an advance belongs before a report on the same run."""
        self._is_announced = False
        for job, failure in self._runs.take_failed():
            is_snooze = failure.kind is ErrorKind.SNOOZED  # nobody is to blame, nothing to mend
            log = structlog.get_logger("shunter.worker")
            (log.info if is_snooze else log.warning)(
                "a run was put off" if is_snooze else "a run failed",
                action="snooze" if is_snooze else "fail",
                type=job.type,
                job=job.job_id,
                attempt=job.attempt,
                error=in_one_line(failure),
            )
        return self._runs.take_output()

    def take_asks(self) -> list[RunAsked]:
        """Return what runs want of their journals."""
        return self._runs.take_asks()

    def answer(self, answers: Iterable[Answer]) -> None:
        """Answer asks of runs, each child's together; a run that is over hears nothing."""
        touched: set[Slot] = set()
        for key, number, answer in answers:
            if (slot := self._askers.pop((key, number), None)) is not None:
                slot.answer(answered(number, answer))
                touched.add(slot)
        for slot in touched:
            slot.flush_answers()

    def open_keys(self) -> set[int]:
        """Return the keys of all runs that are here."""
        return set(self._runs.open)

    def take_returned(self) -> dict[str, list[Held]]:
        """Return runs that were ended through no fault of their own, by the reason to give."""
        return {}

    def cancel(self, jobs: Sequence[Held]) -> None:
        """Stop these runs; each is reported when it has ended, and how. Others are ignored."""
        keys = self._runs.cancel(jobs)
        if not keys <= self._running().keys():
            for key in self._sift(keys)[0]:
                self._runs.drop_unstarted(key, now=monotonic())
        self._push(monotonic())
        self._announce_output()

    def recall(self) -> list[Held]:
        """Take back everything that has not started."""
        return self._runs.forget(self._sift(set(self._runs.open))[0])

    def overdue(self, now: float) -> list[Held]:
        """Take back what has waited here too long, so that another worker can do it."""
        running = self._running()
        waiting = ((key, at) for key, (_, at) in self._runs.open.items() if key not in running)
        keys = waited_too_long(waiting, now=now, give_back_after=GIVE_BACK_AFTER_SECONDS)
        return self._runs.forget(self._sift(set(keys))[0]) if keys else []

    def destroy_jobs(self) -> list[Held]:
        """Kill all that runs, drop all that waits, report nothing; return what was dropped."""
        dropped = self._drop_jobs("its worker had to drop all its jobs")
        self.take_output()
        return dropped

    def _drop_jobs(self, reason: str) -> list[Held]:
        waiting = self._queue.drain()
        taken_unseen = self._runs.open.keys() - set(waiting) - self._running().keys()
        for slot in self._supervisor.slots:
            if slot.run_state.key or (taken_unseen and not slot.is_retired):
                slot.dismiss(reason)
        self._unaccounted = UnaccountedRuns()
        return self._runs.forget(list(self._runs.open))

    def _end_of_jobs(self) -> None:
        """Let children leave: nothing more will come."""
        self._queue.end()

    def _running(self) -> dict[int, Slot]:
        open_runs = self._runs.open
        boards = ((slot.run_state.key, slot) for slot in self._supervisor.slots)
        return {key: slot for key, slot in boards if key in open_runs}

    def _pump(self) -> None:
        if self._is_stopping:
            return
        must_watch = self._queue.pump()
        if must_watch and not self._is_watching:
            self._loop.add_writer(self._queue.entry_fd, self._pump)
        elif self._is_watching and not must_watch:
            self._loop.remove_writer(self._queue.entry_fd)
        self._is_watching = must_watch

    def _sift(self, wanted: Set[int]) -> tuple[list[int], list[int]]:
        """Take the wanted runs off the queue; return those it had, and those that stay in it."""
        waiting = [key for key in self._queue.drain() if key in self._runs.open]
        taken = [key for key in waiting if key in wanted]
        left = [key for key in waiting if key not in wanted]
        for key in left:
            self._queue.put(key, self._runs.open[key][0])
        self._pump()
        return taken, left

    def _take_frames(self, slot: Slot, frames: Iterator[Frame]) -> None:
        runs, seconds = 0, 0.0
        open_runs, stopping, reports = self._runs.open, self._runs.stopping, self._runs.reports
        for mark, key, begun, took, body in frames:
            if mark == _RESULT and key not in stopping:
                if entry := open_runs.pop(key, None):
                    job, given_at = entry
                    waited = begun - given_at
                    reports.append(
                        Report(job.job_id, job.attempt, body, None, "", None, waited, took)
                    )
            else:
                self._take_rare_frame(slot, mark, key, body, (begun, took))
            if took:
                runs += 1
                seconds += took
        self._window.ran(runs, seconds)
        self._announce_output()

    def _take_rare_frame(
        self, slot: Slot, mark: int, key: int, body: bytes, lasted: tuple[float, float]
    ) -> None:
        match mark:
            case Mark.RESULT:
                self._runs.end(key, result=body, lasted=lasted)
            case Mark.RESULT_WITH_LOG:
                completed = read_logged_result(body)
                self._runs.end(key, result=completed.result, log=completed.log, lasted=lasted)
            case Mark.FAILED:
                failed = read_logged_failure(body)
                self._runs.end(key, failure=failed.failure, log=failed.log, lasted=lasted)
            case Mark.ASK:
                asked = read_run_ask(body)
                if self._runs.ask(key, asked) and asked.number:
                    self._askers[key, asked.number] = slot
            case Mark.PARKED:
                parked = read_logged_result(body)
                self._runs.park(key, parked.result, "parked", parked.log, lasted)
            case Mark.PROGRESS:
                last = read_last_progress(body)
                self._runs.advance(key, last.done, last.total, last.note, begun=lasted[0])
            case _:
                self._supervisor.told(slot, mark)

    def _announce_output(self) -> None:
        if self._runs.reports or self._runs.advances or self._runs.asks:
            self._announce()
        if len(self._runs.open) == self._queue.unsent:
            self._is_idle.set()

    def _announce(self) -> None:
        if not self._is_announced:
            self._is_announced = True
            self._on_output()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        now = monotonic()
        self._ticks += 1
        started = [(key, slot.run_state.started) for key, slot in self._running().items()]
        self._window.running(now - since for _, since in started)
        self._runs.expire(started, now=now)
        self._push(now)
        if self._ticks % 2:
            for slot in self._supervisor.slots:
                self._notice_progress(slot)
        self._notice_logs(now)
        self._flush_answers()
        if self._unaccounted:
            self._look_for_unaccounted(now)
        self._supervisor.tick(now)
        self._pump()
        self._announce_output()

    def _flush_answers(self) -> None:
        """Send on answers that did not fit, and forget askers whose runs are over."""
        if self._askers:
            for slot in self._supervisor.slots:
                slot.flush_answers()
            open_runs = self._runs.open
            self._askers = {it: slot for it, slot in self._askers.items() if it[0] in open_runs}

    def _push(self, now: float) -> None:
        running = self._running()
        for key, push in self._runs.pushes(running, now=now):
            self._push_slot(running[key], key, push)

    def _push_slot(self, slot: Slot, key: int, push: Push) -> None:
        """Push a run that is alone in its child."""
        match push:
            case Push.REQUEST:
                slot.run_state.ask_to_stop(key)
                slot.signal(signal.SIGUSR1)
            case Push.SIGTERM:
                slot.signal(signal.SIGTERM)
            case Push.SIGKILL:
                job_id = self._runs.open[key][0].job_id
                slot.kill(f"the process was killed to end job {job_id}")

    def _notice_progress(self, slot: Slot) -> None:
        progress = slot.run_state.progress()
        if progress is not None and progress.change != slot.progress_seen:
            slot.progress_seen = progress.change
            begun = slot.run_state.started if slot.run_state.key == progress.key else None
            self._runs.advance(
                progress.key, progress.done, progress.total, progress.note, begun=begun
            )

    def _notice_logs(self, now: float) -> None:
        """Have kept what runs have printed that are alone in a child and go on for a while."""
        if self._ticks % LOOK_AT_LOGS:
            return
        for slot in self._supervisor.slots:
            key = slot.run_state.key
            if key not in self._runs.open:
                continue
            seen = key, slot.run_log.size
            is_new = seen[1] and seen != slot.log_seen
            if is_new and now - slot.run_state.started >= LOOK_AT_LOGS * TICK_SECONDS:
                slot.log_seen = seen
                job, _ = self._runs.open[key]
                log = slot.run_log.peek(self._settings.live_log_bytes)
                body = RunSeal(self._app, job.job_id, job.type).live_log(log)
                self._runs.ask(key, RunAsk(0, KeepAsk(EntryKind.LOG, LIVE_LOG, body)))

    def _bury(self, slot: Slot, cause: str) -> None:
        """Work out which job, if any, died with a child."""
        key = slot.run_state.key
        if key in self._runs.open:
            self._notice_progress(slot)
            job, _ = self._runs.open[key]
            seal = RunSeal(self._app, job.job_id, job.type)
            begun = slot.run_state.started
            lasted = begun, monotonic() - begun
            self._runs.die(key, cause, seal.log(slot.run_log.take()), lasted=lasted)
        elif key == 0 and slot.is_ready and not slot.is_retired and self._runs.open:
            in_queue = set(self._sift(set())[1])
            unseen = self._runs.open.keys() - in_queue - self._running().keys()
            survivors = [slot.pid for slot in self._supervisor.slots]
            self._unaccounted.died(unseen, survivors=survivors, cause=cause, now=monotonic())
        self._unaccounted.cleared(slot.pid)
        self._announce_output()

    def _look_for_unaccounted(self, now: float) -> None:
        suspects = self._unaccounted.suspects
        for slot in [slot for slot in self._supervisor.slots if slot.pid in suspects]:
            # In this order: what it had taken before it slept is in its state or its stream.
            was_asleep = is_asleep(slot.pid)
            is_at_work = slot.run_state.key != 0
            while self._supervisor.read(slot):
                pass
            if is_at_work or was_asleep or slot.is_retired or not slot.is_ready:
                self._unaccounted.cleared(slot.pid)
        for key in self._running():
            self._unaccounted.found(key)
        for key, cause in self._unaccounted.lost(now=now):
            self._runs.die(key, cause, "")
