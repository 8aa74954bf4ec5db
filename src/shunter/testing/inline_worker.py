"""A worker without processes: it runs handlers in the caller's thread, when asked to.

To the dispatcher it is a worker like any other, so retries, time-outs, losses and cancels take
the way they take in production. A handler that sleeps moves the virtual clock, and is ended at
its time-out; one that only computes takes no time.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from shunter.app import App
from shunter.client.session import OpenSession
from shunter.context import Context, Terminated, enter_context, leave_context
from shunter.dispatch.arrivals import HeartbeatReceived, WorkerRegistered
from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import AppError
from shunter.handler.arounds import call_through
from shunter.handler.final_failure import is_final_failure, tell_of_failure
from shunter.handler.setups import OpenSetups
from shunter.model.job import ErrorKind, Failure, Job
from shunter.model.report import Advance, Held, Report
from shunter.model.worker import Worker, WorkerKind
from shunter.payload import result_of
from shunter.testing.clock import VirtualClock
from shunter.testing.process_deaths import ProcessDeaths, ProcessDied
from shunter.testing.virtual_time import run_virtually, virtual_runner, virtual_sleep
from shunter.worker.failures import failure_of
from shunter.worker.run_seal import RunSeal


class InlineContext:
    """The context of a run in a sandbox."""

    def __init__(self, worker: InlineWorker, job: Job, seal: RunSeal) -> None:
        self._worker, self._job, self._seal = worker, job, seal

    @property
    def client_session(self) -> OpenSession | None:
        """How a client that the handler opens reaches a dispatcher."""
        return self._worker.client_session

    @property
    def job_id(self) -> str:
        return self._job.id

    @property
    def job_type(self) -> str:
        return self._job.type

    @property
    def run_id(self) -> str:
        return self._job.run or self._job.id

    @property
    def attempt(self) -> int:
        return self._job.attempt

    @property
    def scheduled(self) -> float | None:
        return self._job.scheduled

    @property
    def traceparent(self) -> str | None:
        return self._job.traceparent

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        sealed = self._seal.note(note) if note else ""
        self._worker.advance(Advance(self._job.id, self._job.attempt, done, total, sealed))

    def cancelled(self) -> bool:
        return self._worker.is_cancelled(Held(self._job.id, self._job.attempt))


class InlineWorker:
    """The WorkerLink of itself."""

    def __init__(
        self, worker_id: str, app: App, dispatcher: Dispatcher, clock: VirtualClock
    ) -> None:
        self.id = worker_id
        self.crashes = 0
        self.deaths: ProcessDeaths | None = None
        self.client_session: OpenSession | None = None
        self._app = app
        self._dispatcher = dispatcher
        self._clock = clock
        self._jobs: deque[Job] = deque()
        self._cancelled: set[Held] = set()
        self._beat = 0
        self._running = 0
        self._runner: asyncio.Runner | None = None
        self._raised: BaseException | None = None
        self._setups = OpenSetups(app.setups, self._awaited)

    def open(self) -> None:
        """Open what the app wants open, as a worker's child does, or raise an AppError."""
        if self._app.setups:
            self._runner = virtual_runner(self._clock)
            try:
                self._setups.open()
            except AppError:
                self._runner.close()
                raise

    def close(self) -> None:
        """Close what was opened."""
        if self._runner is not None:
            with self._runner:
                self._setups.close()

    def _awaited(self, coroutine: Coroutine[Any, Any, Any], deadline: float | None = None) -> Any:
        return run_virtually(coroutine, self._clock, deadline, self._runner)

    # ---- WorkerLink

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        self._jobs.extend(jobs)

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None:
        self._cancelled.update(jobs)

    def send_pong(self, worker_id: str, beat: int) -> None: ...

    def send_note(self, worker_id: str, text: str) -> None: ...

    def send_taken(self, worker_id: str, batches: Sequence[int]) -> None: ...

    # ---- what the sandbox and contexts ask

    def introduce(self) -> None:
        """Say READY."""
        now = self._clock()
        worker = Worker(
            id=self.id,
            kind=WorkerKind.FULL,
            hostname="sandbox",
            port=0,
            handlers=self._app.declared_handlers(now),
            max_jobs=1,
            registered=now,
            last_pinged=now,
            version=self._app.version,
        )
        self._dispatcher.introduce(WorkerRegistered(worker, self, frozenset(), 1, None))

    def beat(self) -> None:
        """Say PING."""
        self._beat += 1
        held = frozenset(Held(job.id, job.attempt) for job in self._jobs)
        self._dispatcher.beat(HeartbeatReceived(self.id, held, 1, self._beat))

    def advance(self, advance: Advance) -> None:
        self._dispatcher.advance(self.id, [advance])

    def is_cancelled(self, held: Held) -> bool:
        return held in self._cancelled

    def work(self) -> bool:
        """Run the next job, and tell whether there was one."""
        if not self._jobs:
            return False
        job = self._jobs.popleft()
        self._running += 1
        report = self._report(job)
        self._running -= 1
        self._dispatcher.report(self.id, [report])
        self.make_room()
        return True

    def make_room(self) -> None:
        """Take one job besides those that run: what a handler waits for must be able to run."""
        self._dispatcher.resize(self.id, 1 + self._running)

    def _report(self, job: Job) -> Report:
        held = Held(job.id, job.attempt)
        if held in self._cancelled:
            error = Failure(ErrorKind.CANCELLED, "cancelled before it started")
            return Report(job.id, job.attempt, error=error)
        if self.crashes:
            self.crashes -= 1
            error = Failure(ErrorKind.LOST, "the sandbox let its process die")
            return Report(job.id, job.attempt, error=error)
        started = self._clock()
        timeout = job.execution.timeout
        output = io.StringIO()
        seal = RunSeal(self._app, job.id, job.type)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), _logs(output):
            outcome = self._run(job, None if timeout is None else started + timeout, seal)
            is_late = timeout is not None and self._clock() - started > timeout
            if isinstance(outcome, Failure) and not is_late and held not in self._cancelled:
                self._tell_of_failure(outcome, job, seal)
        log = seal.log(output.getvalue())
        took = self._clock() - started
        waited = max(0.0, started - (job.execution.sent or started))
        if isinstance(outcome, Failure) and outcome.kind is ErrorKind.LOST:
            return Report(job.id, job.attempt, error=outcome, log=log, waited=waited, ran=took)
        if timeout is not None and took > timeout:
            message = f"ran for {took:g} s, its time-out is {timeout:g} s"
            outcome = Failure(ErrorKind.TIMEOUT, message, ended_by="request")
        elif isinstance(outcome, Failure) and held in self._cancelled:
            outcome = Failure(ErrorKind.CANCELLED, outcome.message, ended_by="request")
        retry = next((h.retry for h in self._app.handlers() if h.type == job.type), None)
        if isinstance(outcome, Failure):
            return Report(job.id, job.attempt, None, outcome, log, retry, waited, took)
        return Report(job.id, job.attempt, outcome, None, log, None, waited, took)

    def _run(self, job: Job, deadline: float | None, seal: RunSeal) -> bytes | Failure:
        assert job.payload is not None
        context = InlineContext(self, job, seal)
        try:
            function = self._app.find(job.type)
        except AppError as error:
            return Failure(ErrorKind.REFUSED, str(error))
        opened = seal.opened(job.payload)
        if isinstance(opened, Failure):
            return opened
        try:
            args, kwargs = function.arguments(opened, context, self._setups.values)
        except AppError as error:
            return seal.failure(Failure(ErrorKind.REFUSED, str(error)))
        entered = enter_context(context)
        try:
            with virtual_sleep(self._clock, deadline), self._deaths_of(job, function.function):
                value = call_through(
                    self._app.arounds,
                    function.function,
                    (args, kwargs),
                    {**self._setups.values, Context: context},
                    partial(self._awaited, deadline=deadline),
                )
        except ProcessDied as death:
            return Failure(ErrorKind.LOST, str(death))
        except Terminated:
            return self._timed_out(job, "SIGTERM")
        except TimeoutError as error:
            is_over = deadline is not None and self._clock() >= deadline
            if is_over:
                return self._timed_out(job, "request")
            self._raised = error
            return seal.failure(failure_of(error, job.retry, function.retry))
        except Exception as error:
            self._raised = error
            return seal.failure(failure_of(error, job.retry, function.retry))
        finally:
            leave_context(entered)
        try:
            return seal.result(result_of(value))
        except AppError as error:
            return seal.failure(Failure(ErrorKind.REFUSED, f"handler {job.type!r}: {error}"))

    def _tell_of_failure(self, failure: Failure, job: Job, seal: RunSeal) -> None:
        """Call the app's hooks if the job is not tried again."""
        error, self._raised = self._raised or AppError(failure.message), None
        policy = next((h.retry for h in self._app.handlers() if h.type == job.type), None)
        if is_final_failure(failure, job.retry, policy, job.failures):
            values = {**self._setups.values, Context: InlineContext(self, job, seal)}
            tell_of_failure(self._app.final_failure_hooks, error, values, self._awaited)

    def _deaths_of(
        self, job: Job, handler: Callable[..., Any]
    ) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.deaths is None else self.deaths.around(job, handler)

    def _timed_out(self, job: Job, ended_by: str) -> Failure:
        message = f"ran past its time-out of {job.execution.timeout:g} s"
        return Failure(ErrorKind.TIMEOUT, message, ended_by=ended_by)


@contextlib.contextmanager
def _logs(output: io.StringIO) -> Iterator[None]:
    """Have what is logged written with what is printed, as a worker's child has it."""
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
