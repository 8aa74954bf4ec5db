"""Runs one job in the child process and puts its outcome into a frame.

It decides what counts as which failure: arguments that don't fit are refused, all that a
handler raises is its exception. Whether a run that was asked to stop counts as cancelled is
the parent's decision. The path of a short job through here is what a worker's speed is made of.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Mapping, Sequence
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shunter.app import App, JobFunction
from shunter.context import Context, Terminated, enter_context
from shunter.errors import AppError, StepError
from shunter.handler.arounds import call_through
from shunter.handler.final_failure import is_final_failure, tell_of_failure
from shunter.handler.setups import OpenSetups
from shunter.model.identity import is_reserved
from shunter.model.job import ErrorKind, Failure
from shunter.model.parents import Parents
from shunter.model.park import Park, encode_park
from shunter.payload import result_of
from shunter.tracing import is_tracing, traced
from shunter.wire.messages import Assignment
from shunter.worker.failures import failure_of
from shunter.worker.journal_methods import JournalMethods, journal_of, park_in
from shunter.worker.pool import frames
from shunter.worker.pool.hook_runs import HookRun, hook_run
from shunter.worker.pool.interrupts import Interrupts
from shunter.worker.pool.leftovers import fork_mark, leave_twin
from shunter.worker.pool.parent_line import ParentLine
from shunter.worker.pool.run_log import RunLog
from shunter.worker.pool.run_state import SharedRunState
from shunter.worker.run_seal import RunSeal

if TYPE_CHECKING:
    from shunter.worker.pool.coroutines import Coroutines
    from shunter.worker.run_journal import RunJournal

Call = tuple[JobFunction[..., Any], Sequence[Any], Mapping[str, Any]]
"""A handler, and what it is to be called with."""


class RunContext(JournalMethods):
    """The context of a run in a child process."""

    __slots__ = ("_job", "_journal", "_key", "_line", "_run_state", "_seal", "noted")

    def __init__(
        self,
        run_state: SharedRunState,
        key: int,
        job: Assignment,
        seal: RunSeal,
        line: ParentLine | None = None,
    ) -> None:
        self._run_state, self._key, self._job, self._seal = run_state, key, job, seal
        self._line = line
        self._journal: RunJournal | None = None
        self.noted: tuple[float, float | None, bytes] | None = None

    @property
    def has_journal(self) -> bool:
        """True if the run has used its journal."""
        return self._journal is not None

    @property
    def journal(self) -> RunJournal:
        if self._journal is None:
            self._journal = journal_of(self._line, self._key, self._job, self._seal)
        return self._journal

    @property
    def job_id(self) -> str:
        return self._job.job_id

    @property
    def job_type(self) -> str:
        return self._job.type

    @property
    def run_id(self) -> str:
        return self._job.run or self._job.job_id

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
        if self._run_state.key == self._key:
            sealed = self._seal.note(note).encode() if note else b""
            self.noted = (float(done), None if total is None else float(total), sealed)
            self._run_state.note_progress(*self.noted)

    def cancelled(self) -> bool:
        return self._run_state.key != self._key or self._run_state.is_asked_to_stop


class Executor:
    """What a child has for running jobs, one after the other."""

    def __init__(
        self,
        app: App,
        run_state: SharedRunState,
        interrupts: Interrupts,
        run_log: RunLog,
        line: ParentLine | None = None,
        *,
        result_limit: int | None = None,
    ) -> None:
        self._app, self._run_state, self._interrupts = app, run_state, interrupts
        self._run_log, self._line = run_log, line
        self._is_original = fork_mark()
        self._result_limit = sys.maxsize if result_limit is None else result_limit
        self._coroutines: Coroutines | None = None
        self._raised: BaseException | None = None
        self._setups = OpenSetups(app.setups, self._awaited)

    def open(self) -> None:
        """Open what the app wants open, or raise an AppError."""
        self._setups.open()

    def run(self, key: int, job: Assignment, payload: bytes, started: float) -> bytes:
        """Run the job and return the frame to send."""
        seal = RunSeal(self._app, job.job_id, job.type)
        told = hook_run(self._app, seal, payload) if is_reserved(job.type) else None
        shown = told.failed if isinstance(told, HookRun) else job
        context = RunContext(self._run_state, key, shown, seal, self._line)
        outcome: bytes | Failure | Park
        if told is None:
            outcome = self._outcome(job, payload, context, seal)
        elif isinstance(told, HookRun):
            outcome = self._call_hooks(job, told, context, seal)
        else:
            outcome = told
        if not self._is_original[0]:
            leave_twin()
        if isinstance(outcome, Failure):
            if told is None and self.is_told(outcome, job, context):
                self._tell_of_failure(self._raised or AppError(outcome.message), context)
                outcome = replace(outcome, is_told=True)
            self._raised = None
        seconds = monotonic() - started
        log = self._log()
        if log:
            log = seal.log(log)
        if type(outcome) is bytes:
            frame = frames.result(key, started, seconds, outcome, log)
        elif isinstance(outcome, Park):
            frame = frames.parked(key, started, seconds, encode_park(outcome), log)
        else:
            assert isinstance(outcome, Failure)
            frame = frames.failed(key, started, seconds, outcome, log)
        if context.noted is not None:
            return frames.progress(key, started, *context.noted) + frame
        return frame

    def values(self, context: Context) -> dict[Any, Any]:
        """Return what arounds and hooks may ask for, by type."""
        return {**self._setups.values, Context: context}

    def is_told(self, failure: Failure, job: Assignment, context: Context) -> bool:
        """True if the app wants to know of this failure: it has hooks, and it is the last."""
        if not self._app.final_failure_hooks or context.cancelled():
            return False
        policy = next((h.retry for h in self._app.handlers() if h.type == job.type), None)
        return is_final_failure(failure, job.retry, policy, job.failures)

    def forget_output(self) -> None:
        """Drop what was printed by nobody's run."""
        self._log()

    def close(self) -> None:
        """Close what was opened, or raise an AppError."""
        try:
            self._setups.close()
        finally:
            if self._coroutines is not None:
                self._coroutines.close()

    def _outcome(
        self, job: Assignment, payload: bytes, context: RunContext, seal: RunSeal
    ) -> bytes | Failure | Park:
        interrupts = self._interrupts
        enter_context(context)  # and never left: the next job enters its own
        call = self.prepared(job, payload, context, seal)
        if isinstance(call, Failure):
            return call
        function, args, kwargs = call
        try:
            # Two levels: SIGTERM may raise in the inner `finally` too, and must not get past here.
            try:
                interrupts.armed = True
                if arounds := self._app.arounds:
                    handler, values = function.function, self.values(context)
                    value = call_through(arounds, handler, (args, kwargs), values, self._awaited)
                else:
                    value = function.function(*args, **kwargs)
                    if type(value) is CoroutineType:
                        value = self.coroutines.run(value)
            finally:
                interrupts.armed = False
        except BaseException as error:
            if not self._is_original[0]:
                leave_twin(error)
            self._raised = error
            if (park := park_in(error)) is not None:
                return park
            return seal.failure(failure_of(error, job.retry, function.retry))
        outcome = self.result_of_run(job, value, seal)
        return self.with_journal(context.journal, outcome) if context.has_journal else outcome

    def with_journal(self, journal: RunJournal, outcome: bytes | Failure) -> bytes | Failure:
        """Return an outcome once all that its run has emitted is kept, or why it can't be."""
        try:
            journal.finish()
        except StepError as error:
            return Failure(ErrorKind.REFUSED, str(error))
        return outcome

    def prepared(
        self, job: Assignment, payload: bytes, context: Context, seal: RunSeal
    ) -> Call | Failure:
        """Return what is to be called with which arguments, or why the run can't begin."""
        try:
            function = self._app.find(job.type)
        except AppError as error:
            return Failure(ErrorKind.REFUSED, str(error))
        opened = seal.opened(payload)
        if isinstance(opened, Failure):
            return opened
        try:
            args, kwargs = function.arguments(opened, context, self._setups.values)
        except AppError as error:
            return seal.failure(Failure(ErrorKind.REFUSED, str(error)))
        if is_tracing():
            function = traced(function, job)
        return function, args, kwargs

    def result_of_run(self, job: Assignment, value: Any, seal: RunSeal) -> bytes | Failure:
        """Return what a handler returned as it may leave the worker, or why it can't."""
        try:
            result = seal.result(result_of(value))
        except AppError as error:
            return seal.failure(Failure(ErrorKind.REFUSED, f"handler {job.type!r}: {error}"))
        if isinstance(result, Failure):
            return result
        if len(result) > self._result_limit:
            message = (
                f"handler {job.type!r}: returned {len(result)} bytes, allowed are "
                f"{self._result_limit}; store the result elsewhere and return where it is"
            )
            return Failure(ErrorKind.REFUSED, message)
        return result

    def _call_hooks(
        self, job: Assignment, told: HookRun, context: RunContext, seal: RunSeal
    ) -> bytes | Failure:
        """Call the app's hooks for a job that failed elsewhere."""
        enter_context(context)
        return self.result_of_hooks(job, self._tell_of_failure(told.error, context), seal)

    def result_of_hooks(
        self, job: Assignment, raised: BaseException | None, seal: RunSeal
    ) -> bytes | Failure:
        """Return what the job that calls hooks ends with; what they raise is its failure."""
        if raised is None:
            return self.result_of_run(job, None, seal)
        return seal.failure(failure_of(raised, job.retry, None))

    def _tell_of_failure(self, error: BaseException, context: RunContext) -> BaseException | None:
        """Call the app's hooks and return the first thing raised; a twin that they fork leaves."""
        hooks, values = self._app.final_failure_hooks, self.values(context)
        raised: BaseException | None = None
        try:
            try:
                self._interrupts.armed = True
                raised = tell_of_failure(hooks, error, values, self._awaited)
            finally:
                self._interrupts.armed = False
        except Terminated:
            traceback.print_exc()
        if not self._is_original[0]:
            leave_twin()
        return raised

    def _awaited(self, coroutine: Any) -> Any:
        return self.coroutines.run(coroutine)

    @property
    def coroutines(self) -> Coroutines:
        """The loop on which all coroutines of this child run."""
        if self._coroutines is None:
            from shunter.worker.pool.coroutines import Coroutines

            self._coroutines = Coroutines(self._interrupts)
        return self._coroutines

    @property
    def is_original(self) -> bool:
        """True in the child itself, and not in a twin that a handler has forked."""
        return bool(self._is_original[0])

    def _log(self) -> str:
        # A handler may have closed or replaced the streams: that is no failure of the job.
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        return self._run_log.take()
