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
from concurrent.futures import Future
from functools import partial
from typing import Any

from msgspec.structs import astuple, replace

from shunter.app import App
from shunter.client.session import OpenSession
from shunter.client.session_opener import session_opener
from shunter.context import Context, Terminated, enter_context, leave_context
from shunter.dispatch.arrivals import HeartbeatReceived, WorkerRegistered
from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import AppError, StepError
from shunter.gateway.zmq.journal_gateway import recalled
from shunter.handler.arounds import call_through
from shunter.handler.final_failure import is_final_failure, tell_of_failure
from shunter.handler.setups import OpenSetups
from shunter.model.document import NIL
from shunter.model.identity import is_reserved
from shunter.model.job import ErrorKind, Failure, Job
from shunter.model.journal import EntryKind, Keep, encode_chunks, entries_of
from shunter.model.parents import Parents
from shunter.model.park import Park, encode_park
from shunter.model.report import Advance, Held, Report
from shunter.model.worker import Worker, WorkerKind
from shunter.payload import result_of
from shunter.testing.clock import VirtualClock
from shunter.testing.finish import finish
from shunter.testing.handler_threads import following_threads, run_here
from shunter.testing.process_deaths import ProcessDeaths, ProcessDied
from shunter.testing.sandbox_lock import SandboxLock
from shunter.testing.virtual_time import run_virtually, virtual_runner, virtual_sleep
from shunter.wire.messages import Recall
from shunter.worker.asks import JournalAnswer, JournalAsk, KeepAsk, RecallAsk
from shunter.worker.failures import failure_of
from shunter.worker.journal_methods import JournalMethods, park_in
from shunter.worker.pool.hook_runs import hook_run
from shunter.worker.run_journal import RunJournal
from shunter.worker.run_seal import RunSeal


class InlineContext(JournalMethods):
    """The context of a run in a sandbox."""

    def __init__(self, worker: InlineWorker, job: Job, seal: RunSeal) -> None:
        self._worker, self._job, self._seal = worker, job, seal
        self._journal: RunJournal | None = None

    @property
    def has_journal(self) -> bool:
        """True if the run has used its journal."""
        return self._journal is not None

    @property
    def journal(self) -> RunJournal:
        if self._journal is None:
            job = self._job
            self._journal = RunJournal(
                job.id,
                job.attempt,
                self._seal,
                ask=partial(self._worker.ask, job),
                post=partial(self._worker.ask, job),
                run=job.run,
            )
        return self._journal

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

    @property
    def parents(self) -> Parents:
        return Parents(self._job.parents, self._seal.parent_result)

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
        self.lock = SandboxLock()
        self._app = app
        self._dispatcher = dispatcher
        self._clock = clock
        self._jobs: deque[Job] = deque()
        self._cancelled: set[Held] = set()
        self._beat = 0
        self._running = 0
        self._runs: list[Context] = []
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

    def send_taken(
        self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False
    ) -> None: ...

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
        with self.lock.held():
            self._dispatcher.advance(self.id, [advance])

    def ask(self, job: Job, ask: JournalAsk) -> Future[JournalAnswer]:
        """Answer what a run asks of its journal, after the commit of what it wants kept."""
        with self.lock.held():
            return self._answer(job, ask)

    def _answer(self, job: Job, ask: JournalAsk) -> Future[JournalAnswer]:
        answer = Future[JournalAnswer]()
        if isinstance(ask, RecallAsk):
            recall = Recall(0, job.id, job.attempt, b"", *astuple(ask))
            answer.set_result(JournalAnswer(recalled=finish(recalled(self._dispatcher, recall))))
            return answer
        told: list[bool] = []
        keeps = [
            Keep(job.id, job.attempt, it.kind, it.key, _body(it), it.digest, it.seconds)
            for it in (*ask.marks, ask)
            if it.body
        ]
        entries = entries_of(keeps, now=self._clock())
        self._dispatcher.keep(entries, told.extend)
        finish(self._dispatcher.turn())
        answer.set_result(JournalAnswer(is_kept=all(told)))
        return answer

    def is_cancelled(self, held: Held) -> bool:
        return held in self._cancelled

    def work(self) -> bool:
        """Run the next job, and tell whether there was one; the caller holds the lock.

        While a handler's thread waits for a job, another thread of that handler lets none run:
        runs are nested, and never side by side.
        """
        me = run_here.get()
        with self.lock.given_up(until=lambda: me not in self._runs or self._runs[-1] is me):
            pass
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
            is_stopped = isinstance(outcome, Failure) and outcome.kind is ErrorKind.TIMEOUT
            may_tell = not is_late and not is_stopped and held not in self._cancelled
            if isinstance(outcome, Failure) and may_tell and not is_reserved(job.type):
                outcome = self._tell_of_failure(outcome, job, seal)
        log = seal.log(output.getvalue())
        took = self._clock() - started
        waited = max(0.0, started - (job.execution.sent or started))
        if isinstance(outcome, Failure) and outcome.kind is ErrorKind.LOST:
            return Report(job.id, job.attempt, error=outcome, log=log, waited=waited, ran=took)
        if isinstance(outcome, Park) and held not in self._cancelled:
            failure = Failure(ErrorKind.PARKED, outcome.text)
            park = encode_park(outcome)
            return Report(job.id, job.attempt, park, failure, log, None, waited, took)
        if isinstance(outcome, Park):
            outcome = Failure(ErrorKind.CANCELLED, outcome.text)
        if timeout is not None and took > timeout:
            message = f"ran for {took:g} s, its time-out is {timeout:g} s"
            outcome = Failure(ErrorKind.TIMEOUT, message, ended_by="request")
        elif isinstance(outcome, Failure) and held in self._cancelled:
            outcome = Failure(ErrorKind.CANCELLED, outcome.message, ended_by="request")
        retry = next((h.retry for h in self._app.handlers() if h.type == job.type), None)
        if isinstance(outcome, Failure):
            return Report(job.id, job.attempt, None, outcome, log, retry, waited, took)
        return Report(job.id, job.attempt, outcome, None, log, None, waited, took)

    def _run(self, job: Job, deadline: float | None, seal: RunSeal) -> bytes | Failure | Park:
        assert job.payload is not None
        if is_reserved(job.type):
            return self._call_hooks(job, job.payload, deadline, seal)
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
        try:
            with (
                self._running_in(context),
                virtual_sleep(self._clock, deadline),
                self._deaths_of(job, function.function),
            ):
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
        except BaseException as error:
            if (park := park_in(error)) is not None:
                return park
            if not isinstance(error, Exception):
                raise
            self._raised = error
            return seal.failure(failure_of(error, job.retry, function.retry))
        try:
            if context.has_journal:
                context.journal.finish()
            return seal.result(result_of(value))
        except (AppError, StepError) as error:
            return seal.failure(Failure(ErrorKind.REFUSED, f"handler {job.type!r}: {error}"))

    def _tell_of_failure(self, failure: Failure, job: Job, seal: RunSeal) -> Failure:
        """Call the app's hooks if the job is not tried again."""
        error, self._raised = self._raised or AppError(failure.message), None
        retry = next((h.retry for h in self._app.handlers() if h.type == job.type), None)
        if not self._app.final_failure_hooks or not is_final_failure(
            failure, job.retry, retry, job.failures
        ):
            return failure
        context = InlineContext(self, job, seal)
        values = {**self._setups.values, Context: context}
        with self._running_in(context):
            tell_of_failure(self._app.final_failure_hooks, error, values, self._awaited)
        return replace(failure, is_told=True)

    def _call_hooks(
        self, job: Job, payload: bytes, deadline: float | None, seal: RunSeal
    ) -> bytes | Failure:
        """Call the app's hooks for a job that failed where nobody could."""
        told = hook_run(self._app, seal, payload)
        if isinstance(told, Failure):
            return told
        failed = Job(
            id=told.failed.job_id,
            type=told.failed.type,
            attempt=told.failed.attempt,
            run=told.failed.run,
            scheduled=told.failed.scheduled,
            traceparent=told.failed.traceparent,
            created=job.created,
            updated=job.updated,
        )
        context = InlineContext(self, failed, seal)
        values = {**self._setups.values, Context: context}
        raised: BaseException | None
        try:
            with self._running_in(context), virtual_sleep(self._clock, deadline):
                run = partial(self._awaited, deadline=deadline)
                raised = tell_of_failure(self._app.final_failure_hooks, told.error, values, run)
        except Terminated as ended:  # in a thread of a hook
            raised = ended
        if raised is None:
            return seal.result(NIL)
        if isinstance(raised, Terminated | TimeoutError) and self._clock() >= (deadline or 0.0):
            return self._timed_out(job, "SIGTERM")
        return seal.failure(failure_of(raised, job.retry, None))

    @contextlib.contextmanager
    def _running_in(self, context: Context) -> Iterator[None]:
        """Let the app's code run in this context, it and its threads."""
        entered = enter_context(context)
        run, session = run_here.set(context), session_opener.set(self.client_session)
        self._runs.append(context)
        try:
            with following_threads, self.lock.given_up():
                yield
        finally:
            self._runs.remove(context)
            session_opener.reset(session)
            run_here.reset(run)
            leave_context(entered)

    def _deaths_of(
        self, job: Job, handler: Callable[..., Any]
    ) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.deaths is None else self.deaths.around(job, handler)

    def _timed_out(self, job: Job, ended_by: str) -> Failure:
        message = f"ran past its time-out of {job.execution.timeout:g} s"
        return Failure(ErrorKind.TIMEOUT, message, ended_by=ended_by)


def _body(ask: KeepAsk) -> bytes:
    return encode_chunks([ask.body]) if ask.kind is EntryKind.CHUNKS else ask.body


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
