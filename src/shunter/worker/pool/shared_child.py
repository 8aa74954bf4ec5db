"""The child process of an app whose jobs share children: many at a time on one event loop.

Coroutines are tasks of the loop, plain functions have a thread each. A job whose type allows no
company comes when nothing else is here, and is done as in any other child, while the loop stands
still. Which jobs come is the parent's decision, and so is what to do about one that does not
stop. Outcomes of one turn of the loop go to the parent together.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import socket
from collections.abc import Coroutine, Mapping
from functools import partial
from heapq import nsmallest
from itertools import takewhile
from time import monotonic
from types import CoroutineType, FrameType
from typing import Any

from msgspec.structs import replace

from shunter.app import App
from shunter.context import Terminated, enter_context
from shunter.errors import AppError
from shunter.handler.arounds import awaited_through, call_through
from shunter.handler.final_failure import tell_of_failure, tell_of_failure_here
from shunter.model.final_failure import with_hooks
from shunter.model.identity import is_reserved
from shunter.model.job import ErrorKind, Failure
from shunter.model.journal import LIVE_LOG, EntryKind
from shunter.model.park import Park, encode_park
from shunter.wire.messages import Assignment
from shunter.worker.asks import KeepAsk
from shunter.worker.failures import failure_of
from shunter.worker.journal_methods import park_in
from shunter.worker.pool import frames
from shunter.worker.pool.child_channel import WORD_MARK, Word
from shunter.worker.pool.child_queue import KEY, MESSAGE_BYTES, read_beside, read_job
from shunter.worker.pool.coroutines import driven
from shunter.worker.pool.executor import Call, Executor
from shunter.worker.pool.hook_runs import HookRun, hook_run
from shunter.worker.pool.interrupts import Interrupts
from shunter.worker.pool.leftovers import end_leftovers, leave_twin
from shunter.worker.pool.loop_watch import BlockingStep, LoopWatch, run_of
from shunter.worker.pool.parent_line import ParentLine
from shunter.worker.pool.run_output import RunOutput, output_of_run
from shunter.worker.pool.run_state import SharedRunState
from shunter.worker.pool.run_threads import RunThreads
from shunter.worker.pool.shared_run import SharedRun
from shunter.worker.procfs import resident_megabytes
from shunter.worker.run_seal import RunSeal

LOOK_SECONDS = 0.1
"""How often progress is passed on."""

LOG_SECONDS = 1.0
"""How often logs are, of runs that have gone on for so long."""

MOST_LOGS = 16
MOST_LOG_BYTES = 64 << 10
"""How many logs are passed on at a time, and how much: the rest have their turn at the next."""

_WEIGH_EVERY_SECONDS = 0.25
_READ_AT_ONCE = 128
_ANCILLARY_BYTES = socket.CMSG_SPACE(4)
_FLAGS = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)  # as enumerations they cost a call

_Alone = tuple[int, Assignment, bytes]


class SharedChild:
    """Serves until its lane ends."""

    def __init__(
        self,
        app: App,
        executor: Executor,
        lane: socket.socket,
        line: ParentLine,
        run_state: SharedRunState,
        interrupts: Interrupts,
        *,
        log_limit: int,
        live_log_bytes: int,
        max_megabytes: int | None,
    ) -> None:
        self._app, self._executor, self._lane, self._line = app, executor, lane, line
        self._run_state, self._interrupts = run_state, interrupts
        self._log_limit, self._live_log_bytes = log_limit, live_log_bytes
        self._max_megabytes = max_megabytes
        handlers = with_hooks(app.handlers())
        self._most: Mapping[str, int] = {each.type: each.concurrency for each in handlers}
        self._timed = {each.type for each in handlers if each.timeout is not None}
        self._loop = executor.coroutines.loop
        self._threads: RunThreads | None = None
        self._runs: dict[int, SharedRun] = {}
        self._noted: set[SharedRun] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._weigh_at = self._log_at = 0.0
        self._message = bytearray(MESSAGE_BYTES)
        self._watch = LoopWatch(self._loop, on_blocked=self._say_blocked, on_freed=self._say_freed)
        interrupts.run_of = _key_of

    def serve(self) -> None:
        """Do jobs until the parent sends no more."""
        while (alone := self._loop.run_until_complete(self._serve_together())) is not None:
            self._run_alone(*alone)
        self._line.flush(self._loop)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    # ---- from the parent

    async def _serve_together(self) -> _Alone | None:
        """Take jobs until one comes that wants to be alone: return it, or None at the end."""
        self._next: asyncio.Future[_Alone | None] = self._loop.create_future()
        self._loop.add_reader(self._lane.fileno(), self._read)
        return await self._next

    def _read(self) -> None:
        message = self._message
        view, buffers = memoryview(message), (message,)
        for _ in range(_READ_AT_ONCE):
            try:
                size, ancillary, _, _ = self._lane.recvmsg_into(buffers, _ANCILLARY_BYTES, _FLAGS)
            except BlockingIOError:
                return
            if size == 0:
                self._leave_loop(None)
                return
            key = KEY.unpack_from(message)[0]
            if key & WORD_MARK:
                self._hear(key ^ WORD_MARK, Word(message[KEY.size]))
                continue
            job = read_job(view[KEY.size : size])
            if ancillary:
                job = read_beside(ancillary[0][2], job)
            if self._most.get(job.type, 1) == 1:
                self._leave_loop((key, job, job.payload))
                return
            self._begin(key, job, job.payload)

    def _leave_loop(self, alone: _Alone | None) -> None:
        self._loop.remove_reader(self._lane.fileno())
        self._next.set_result(alone)

    def _hear(self, key: int, word: Word) -> None:
        run = self._runs.get(key)
        if run is None:
            return
        self._say(frames.heard(key))
        run.is_asked = True
        if word is Word.TELL:
            run.is_told = True
        if run.task is not None:
            if run.has_begun:
                run.task.cancel()
        elif word is Word.TELL and self._threads is not None:
            self._threads.terminate(run)

    # ---- runs that share

    def _begin(self, key: int, job: Assignment, payload: bytes) -> None:
        begun, seal = monotonic(), RunSeal(self._app, job.job_id, job.type)
        output = RunOutput(self._log_limit)
        told = hook_run(self._app, seal, payload) if is_reserved(job.type) else None
        shown = told.failed if isinstance(told, HookRun) else job
        run = SharedRun(
            key, shown, seal, output, self._line, begun=begun, on_progress=self._noted.add
        )
        if not self._runs:
            self._watch.is_busy.set()
        self._runs[key] = run
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_SECONDS, self._look)
        if job.timeout is not None or job.type in self._timed:
            self._say(frames.started(key, begun))
        variables = contextvars.copy_context()
        variables.run(_enter, run)
        if told is not None:
            self._begin_hooks(run, job, told, variables)
            return
        call = variables.run(self._executor.prepared, job, payload, run, seal)
        if isinstance(call, Failure):
            failing = self._fail(run, call, AppError(call.message))
            run.task = self._loop.create_task(failing, context=variables)
        elif call[0].is_async:
            run.task = self._loop.create_task(self._run_task(run, call), context=variables)
        else:
            self._start_thread(run, partial(variables.run, self._run_in_thread, run, call))

    async def _run_task(self, run: SharedRun, call: Call) -> None:
        function, args, kwargs = call
        run.has_begun = True
        try:
            if run.is_asked:
                raise asyncio.CancelledError("asked to stop before it began")
            if arounds := self._app.arounds:
                handler, values = function.function, self._executor.values(run)
                called = awaited_through(arounds, handler, (args, kwargs), values)
            else:
                called = function.function(*args, **kwargs)
            value = await driven(called, run.take_word)
        except BaseException as error:
            if not self._executor.is_original:
                leave_twin(error)
            if (park := park_in(error)) is not None:
                self._finish(run, park)
                return
            failure = run.seal.failure(failure_of(error, run.job.retry, function.retry))
            await self._fail(run, failure, error)
            return
        if not self._executor.is_original:
            leave_twin()
        outcome = self._executor.result_of_run(run.job, value, run.seal)
        if run.has_journal:
            closed = partial(self._executor.with_journal, run.journal, outcome)
            outcome = await asyncio.to_thread(closed) if run.journal.is_unsynced else closed()
        self._finish(run, outcome)

    async def _fail(self, run: SharedRun, failure: Failure, error: BaseException) -> None:
        """Finish a run that has failed; before, call the app's hooks if that was its last try."""
        if self._executor.is_told(failure, run.job, run):
            hooks, values = self._app.final_failure_hooks, self._executor.values(run)
            await tell_of_failure_here(hooks, error, values)
            failure = replace(failure, is_told=True)
        self._finish(run, failure)

    def _begin_hooks(
        self,
        run: SharedRun,
        job: Assignment,
        told: HookRun | Failure,
        variables: contextvars.Context,
    ) -> None:
        """Call the app's hooks for a job that failed elsewhere, on the loop or in a thread.

        That is as its handler would have been called.
        """
        if isinstance(told, Failure):
            self._finish(run, told)
        elif self._app.find(run.job.type).is_async:
            calling = self._call_in_task(run, job, told)
            run.task = self._loop.create_task(calling, context=variables)
        else:
            self._start_thread(run, partial(variables.run, self._call_in_thread, run, job, told))

    async def _call_in_task(self, run: SharedRun, job: Assignment, told: HookRun) -> None:
        run.has_begun = True
        hooks, values = self._app.final_failure_hooks, self._executor.values(run)
        raised = await driven(tell_of_failure_here(hooks, told.error, values), run.take_word)
        self._finish(run, self._executor.result_of_hooks(job, raised, run.seal))

    def _call_in_thread(self, run: SharedRun, job: Assignment, told: HookRun) -> None:
        assert self._threads is not None
        hooks, values = self._app.final_failure_hooks, self._executor.values(run)
        raised: BaseException | None = None
        # Terminated may come late, and must not get past here.
        with contextlib.suppress(Terminated):
            try:
                raised = tell_of_failure(hooks, told.error, values, self._on_loop)
            finally:
                self._threads.ended()
        outcome = self._executor.result_of_hooks(job, raised, run.seal)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this
            self._loop.call_soon_threadsafe(self._finish, run, outcome)

    def _start_thread(self, run: SharedRun, work: partial[None]) -> None:
        if self._threads is None:
            self._threads = RunThreads(max(self._most.values()))
        self._threads.start(run, work)

    def _run_in_thread(self, run: SharedRun, call: Call) -> None:
        assert self._threads is not None
        function, args, kwargs = call
        outcome: bytes | Failure | Park
        # Two levels: Terminated may come in the inner `finally` too, and must not get past here.
        try:
            try:
                if arounds := self._app.arounds:
                    handler, values = function.function, self._executor.values(run)
                    value = call_through(arounds, handler, (args, kwargs), values, self._on_loop)
                else:
                    value = function.function(*args, **kwargs)
                    if type(value) is CoroutineType:
                        value = asyncio.run(value)
            finally:
                self._threads.ended()
        except BaseException as error:
            if not self._executor.is_original:
                leave_twin(error)
            outcome = park_in(error) or run.seal.failure(
                failure_of(error, run.job.retry, function.retry)
            )
            if isinstance(outcome, Failure) and self._executor.is_told(outcome, run.job, run):
                hooks, values = self._app.final_failure_hooks, self._executor.values(run)
                tell_of_failure(hooks, error, values, self._on_loop)
                outcome = replace(outcome, is_told=True)
        else:
            if not self._executor.is_original:
                leave_twin()
            outcome = self._executor.result_of_run(run.job, value, run.seal)
            if run.has_journal:
                outcome = self._executor.with_journal(run.journal, outcome)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this
            self._loop.call_soon_threadsafe(self._finish, run, outcome)

    def _on_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Await something for a thread, on the loop on which setups live."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _finish(self, run: SharedRun, outcome: bytes | Failure | Park) -> None:
        """Say how a run has ended."""
        run.has_ended = True
        if self._runs.pop(run.key, None) is None:
            return
        if not self._runs:
            self._watch.is_busy.clear()
        self._noted.discard(run)
        begun, seconds = run.begun, monotonic() - run.begun
        log = run.output.text()
        if log:
            log = run.seal.log(log)
        if run.noted is not None:
            self._say(frames.progress(run.key, begun, *run.noted))
        if isinstance(outcome, Park):
            self._say(frames.parked(run.key, begun, seconds, encode_park(outcome), log))
        elif isinstance(outcome, Failure):
            self._say(frames.failed(run.key, begun, seconds, outcome, log))
        else:
            self._say(frames.result(run.key, begun, seconds, outcome, log))

    # ---- a run that wants to be alone

    def _run_alone(self, key: int, job: Assignment, payload: bytes) -> None:
        self._line.flush(self._loop)
        begun = monotonic()
        self._run_state.begin(key, begun)
        self._executor.forget_output()
        outcome = self._executor.run(key, job, payload, begun)
        if self._run_state.key_to_stop == key and end_leftovers(begun):
            outcome += frames.bare(frames.Mark.FULL)
        self._send(outcome)
        self._run_state.end()
        self._weigh(monotonic())

    # ---- to the parent

    def _say(self, frame: bytes) -> None:
        """Send this at the end of this turn of the loop."""
        self._line.send_soon(frame, self._loop)

    def _send(self, data: bytes) -> None:
        # A broken pipe says that the parent has gone; the kernel is about to say so too.
        with contextlib.suppress(BrokenPipeError):
            self._line.send(data)

    def _look(self) -> None:
        """Pass on progress and logs, while there are runs."""
        self._looking = None
        while self._noted:
            run = self._noted.pop()
            if run.noted is not None and not run.has_ended:
                self._say(frames.progress(run.key, run.begun, *run.noted))
        now = monotonic()
        if now >= self._log_at:
            self._log_at = now + LOG_SECONDS
            self._tell_logs(now)
        self._weigh(now)
        if self._runs:
            self._looking = self._loop.call_later(LOOK_SECONDS, self._look)

    def _tell_logs(self, now: float) -> None:
        """Pass on what runs have printed that go on for a while; who waits longest is first."""
        lasting = takewhile(lambda run: now - run.begun >= LOG_SECONDS, self._runs.values())
        printing = (run for run in lasting if run.output.printed != run.log_told)
        left = MOST_LOG_BYTES
        for run in nsmallest(MOST_LOGS, printing, key=lambda run: run.log_told_at):
            run.log_told, run.log_told_at = run.output.printed, now
            body = run.seal.live_log(run.output.peek(self._live_log_bytes))
            self._say(frames.asked(run.key, 0, KeepAsk(EntryKind.LOG, LIVE_LOG, body)))
            left -= len(body)
            if left <= 0:
                break

    def _weigh(self, now: float) -> None:
        if self._max_megabytes is not None and now >= self._weigh_at:
            self._weigh_at = now + _WEIGH_EVERY_SECONDS
            if resident_megabytes() > self._max_megabytes:
                self._send(frames.bare(frames.Mark.FULL))

    def _say_blocked(self, step: BlockingStep) -> None:
        """Called by the watching thread."""
        run = step.run if isinstance(step.run, SharedRun) else None
        at = frames.BlockedAt(step.place, step.stack, "")
        if run is not None:
            said = run.seal.failure(Failure(ErrorKind.EXCEPTION, "", step.stack))
            log = run.output.text()
            at = frames.BlockedAt(step.place, said.traceback, run.seal.log(log) if log else "")
        self._send(frames.blocked(0 if run is None else run.key, step.since, at))

    def _say_freed(self) -> None:
        self._send(frames.bare(frames.Mark.GOES_ON))


def _enter(run: SharedRun) -> None:
    enter_context(run)
    output_of_run.set(run.output)


def _key_of(frame: FrameType | None) -> int:
    run = run_of(frame)  # none between two steps, where nothing may be raised
    return run.key if isinstance(run, SharedRun) else 0
