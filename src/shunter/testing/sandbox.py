"""A whole Shunter in one object, for tests: submit, let time pass, look.

with Sandbox(app) as sandbox:
    job = sandbox.submit("add", 1, 2)
    assert job.result() == 3
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from msgspec.structs import replace

from shunter.app import App, JobFunction, payload_of
from shunter.client.async_client import AsyncClient
from shunter.client.handle import R_co, ReadResult, decode, raise_refusal, value_of
from shunter.client.input_checks import checked_names, checked_type
from shunter.client.job_journals import signal_body
from shunter.client.limits import AsyncLimits, Limits
from shunter.client.options import JobOptions
from shunter.client.schedules import AsyncSchedules, Schedules
from shunter.client.sealed_values import (
    check_unique,
    is_same_call,
    opened_chunk,
    opened_entry,
    opened_job,
    opened_outcome,
    opened_payload,
    sealed_payload,
    sealed_signal,
)
from shunter.client.submit_options import SubmitOptions
from shunter.client.sync_client import Client
from shunter.client.workflow import Call, RunPlan, Workflow, add_batch
from shunter.codec import Codec
from shunter.dispatch import sweep
from shunter.dispatch.alarm_clock import AlarmClock
from shunter.dispatch.declarations import Declarations
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.pauses import pause, resume
from shunter.dispatch.rules import Rules
from shunter.dispatch.tick_sweep import TickSweep
from shunter.errors import (
    JobNotFound,
    JobRefused,
    ResultTimeout,
    StreamRestarted,
    UniqueKeyTaken,
)
from shunter.model.document import NIL
from shunter.model.identity import timed_id
from shunter.model.job import Job, Status
from shunter.model.job_stream import Chunk, StreamReader
from shunter.model.journal import EntryKind, JournalEntry, Signal, signal_fault
from shunter.model.pause import PauseTarget
from shunter.model.resubmission import resubmission
from shunter.model.submission import Receipt, Submission
from shunter.store.memory import MemoryStore
from shunter.testing.clock import VirtualClock
from shunter.testing.finish import finish
from shunter.testing.inline_worker import InlineWorker
from shunter.testing.process_deaths import ProcessDeaths
from shunter.testing.sandbox_session import SandboxSession, reaching
from shunter.wire.messages import Outcome

MAX_TURNS = 100_000

P = ParamSpec("P")
R = TypeVar("R")


class SandboxJob(Generic[R_co]):
    """A job in a sandbox."""

    def __init__(self, sandbox: Sandbox, job_id: str, read_result: ReadResult = decode) -> None:
        self.id = job_id
        self._sandbox, self._read_result = sandbox, read_result

    @property
    def record(self) -> Job:
        """The job as the store has it now: with a codec, encrypted."""
        return self._sandbox.job(self.id)

    @property
    def status(self) -> Status:
        """Where the job stands now."""
        return self.record.status

    @property
    def log(self) -> str:
        """What the last run printed and logged."""
        return self._sandbox.opened(self.record).log

    def result(self) -> R_co:
        """Run what can run now, and return the result or raise as a client would."""
        self._sandbox.run()
        job = self.record
        if not job.status.is_final:
            raise ResultTimeout(self.id, 0.0)
        outcome = Outcome(job.id, job.status, job.result, job.error)
        opened = opened_outcome(self._sandbox.codec, outcome)
        found: R_co = value_of(opened, self._read_result)
        return found

    def cancel(self) -> None:
        """Ask for the job to be stopped, or raise JobRefused."""
        self._sandbox.cancel(self.id)

    def signal(self, name: str, value: Any = None, *, id: str = "") -> None:  # noqa: A002
        """Send the job a signal, or raise JobRefused."""
        self._sandbox.signal(self.id, name, value, id=id)

    def stream(self, *, on_restart: Callable[[int], None] | None = None) -> Iterator[Any]:
        """Run what can run now, and yield what the job has emitted by then."""
        self._sandbox.run()
        reader = StreamReader()
        for each in reader.read(self._sandbox.journal(self.id, EntryKind.CHUNKS)):
            if isinstance(each, Chunk):
                yield opened_chunk(self._sandbox.codec, each.body, self.id)
            elif on_restart is None:
                raise StreamRestarted(self.id, each.number)
            else:
                on_restart(each.number)

    @property
    def steps(self) -> list[JournalEntry]:
        """The steps that the job has kept, with their results as msgpack."""
        return self._sandbox.journal(self.id, EntryKind.STEP)


class Sandbox:
    """An app, a dispatcher, a worker, a store and a clock that stands still until told.

    Nobody is called back; `callbacks` has the URL and the job's id of each call that would be made.
    With `faults`, a seed, processes that run handlers die, at points drawn from it; after
    `settle()` all jobs have ended all the same, and a test looks whether its invariant holds.
    """

    def __init__(
        self,
        app: App,
        *,
        rules: Rules = Rules(),  # noqa: B008
        seed: int = 0,
        faults: int | None = None,
    ) -> None:
        self._app = app
        self.clock = VirtualClock()
        self.store = MemoryStore()
        self._random = random.Random(seed)  # noqa: S311
        self.dispatcher = Dispatcher(
            self.store,
            dispatcher_id="d-sandbox",
            rules=rules,
            now=self.clock,
            jitter=self._random.random,
        )
        self.worker = InlineWorker("w-sandbox", app, self.dispatcher, self.clock)
        self.worker.client_session = lambda *_, **__: SandboxSession(self)
        self.worker.deaths = None if faults is None else ProcessDeaths(faults)
        self.callbacks: list[tuple[str, str]] = []
        self.dispatcher.serve_callbacks(self)
        self._options = JobOptions()
        self._alarm_clock = AlarmClock()
        self._ticks = TickSweep(self.dispatcher, new_id=self.new_id, look_seconds=0.0)
        self._declarations = Declarations(
            self.dispatcher, self._ticks.timetable, tell=lambda name, text: None
        )

    def __enter__(self) -> Sandbox:
        self.worker.open()
        finish(self.store.open())
        self.worker.introduce()
        self.run()
        finish(sweep.share_limits(self.dispatcher))
        self.run()
        return self

    def __exit__(self, *_: object) -> None:
        finish(self.store.close())
        self.worker.close()

    @property
    def codec(self) -> Codec | None:
        """That of the app, by which jobs are submitted and results read."""
        return self._app.codec

    def with_options(self, **options: Unpack[SubmitOptions]) -> Sandbox:
        """Return this sandbox with other options for what it submits: priority, delay, ..."""
        checked_names(options, JobOptions.__struct_fields__)
        view = Sandbox.__new__(Sandbox)
        view.__dict__ = {**self.__dict__, "_options": JobOptions(**options)}
        return view

    def client(self) -> Client:
        """Return a client of this sandbox, for a program under test; close it before the sandbox.

        Jobs run when the test calls `run()` or `advance()`, or the client waits for a result.
        """
        with reaching(self):
            return Client(codec=self.codec)

    def async_client(self) -> AsyncClient:
        """Return the same for a program with an event loop of its own."""
        with reaching(self):
            return AsyncClient(codec=self.codec)

    @property
    def schedules(self) -> Schedules[SandboxJob[Any]]:
        """The schedules by which jobs are made as time passes; with the methods of a client's."""
        ask = SandboxSession(self).ask
        return Schedules(AsyncSchedules(ask, self, lambda job_id: SandboxJob(self, job_id)), finish)

    @property
    def limits(self) -> Limits:
        """The limits of types; with the methods of a client's."""
        return Limits(AsyncLimits(SandboxSession(self).ask), finish)

    def template(self, job: str | JobFunction[..., Any], payload: bytes) -> Submission:
        """Return a job as it would be submitted, but without a name and without sealing it."""
        job_type = checked_type(job)
        return Submission("", job_type, payload, **self._options.fields())

    def codec_for(self, job: str | JobFunction[..., Any]) -> Codec | None:
        """That of the app."""
        return self.codec

    def new_id(self) -> str:
        """Return a name that no other job has."""
        return timed_id(self.clock(), self._random.getrandbits(80))

    @overload
    def submit(
        self, job: JobFunction[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> SandboxJob[R]: ...

    @overload
    def submit(self, job: str, /, *args: Any, **kwargs: Any) -> SandboxJob[Any]: ...

    def submit(
        self, job: str | JobFunction[..., Any], /, *args: Any, **kwargs: Any
    ) -> SandboxJob[Any]:
        """Submit a job; nothing runs before `run()`, `advance()` or `result()`."""
        submission, job_id = self.template(job, payload_of(*args, **kwargs)), self.new_id()
        if self.codec is not None and submission.unique is not None:
            check_unique(submission.unique, job_id)
        payload = sealed_payload(self.codec, submission.payload, job_id, submission.type)
        submission = replace(submission, id=job_id, payload=payload)
        read = job.read_result if isinstance(job, JobFunction) else decode
        return SandboxJob(self, self._submitted(submission), read)

    def _submitted(self, submission: Submission) -> str:
        """Return the id of the job that came of it."""
        receipts: list[Receipt] = []
        self.dispatcher.submit([submission], receipts.extend)
        finish(self.dispatcher.turn())
        (receipt,) = receipts
        if receipt.reason and (holder := self._same_job(submission, receipt)) is not None:
            return holder
        if receipt.reason:
            raise_refusal(receipt)
        return receipt.job_id

    def workflow(self, name: str, *, run: str = "") -> Workflow[SandboxJob[Any]]:
        """Put together jobs that wait for jobs, as in `Client`."""
        plan: Workflow[SandboxJob[Any]] = Workflow(
            name,
            run or self.new_id(),
            submission=self._node_submission,
            handle=lambda submission, job: SandboxJob(self, submission.id),
        )
        plan.commit = self._commit_run
        return plan

    def batch(
        self,
        calls: Iterable[Call],
        *,
        then: Call,
        when: str | None = None,
    ) -> SandboxJob[Any]:
        """Submit a job for each call, and one that comes after all of them, as in `Client`."""
        plan = self.workflow("batch")
        last = add_batch(plan, calls, then, when)
        self._commit_run(plan)
        return last

    def _node_submission(
        self, job: str | JobFunction[..., Any], payload: bytes, options: dict[str, Any]
    ) -> Submission:
        view = self.with_options(**options) if options else self
        submission, job_id = view.template(job, payload), self.new_id()
        payload = sealed_payload(self.codec, submission.payload, job_id, submission.type)
        return replace(submission, id=job_id, payload=payload)

    def _commit_run(self, plan: RunPlan[SandboxJob[Any]]) -> None:
        receipts: list[Receipt] = []
        self.dispatcher.submit(plan.submissions, receipts.extend, is_whole=True)
        finish(self.dispatcher.turn())
        for receipt in sorted(receipts, key=lambda it: it.field == "graph"):
            raise_refusal(receipt)

    def rerun(
        self,
        job_id: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        new_id: str = "",
    ) -> SandboxJob[Any]:
        """Do an ended job again, as a new one, with its arguments or with these."""
        job, new_id = self.job(job_id), new_id or self.new_id()
        if args is None and kwargs is None:
            payload = opened_payload(self.codec, job.payload or NIL, job.id, job.type)
        else:
            payload = payload_of(*(args or ()), **(kwargs or {}))
        payload = sealed_payload(self.codec, payload, new_id, job.type)
        submission = resubmission(job, new_id=new_id, payload=payload)
        return SandboxJob(self, self._submitted(submission))

    def _same_job(self, submission: Submission, refused: Receipt) -> str | None:
        """Return the job that was meant where the same arguments were only sealed anew."""
        holder = UniqueKeyTaken.holder_in(refused.reason)
        if self.codec is None or holder is None:
            return None
        job = self.job(holder)
        is_same = is_same_call(
            self.codec, submission.payload, job, job_id=submission.id, type=submission.type
        )
        return holder if is_same else None

    def pause(self, job: str | JobFunction[..., Any]) -> None:
        """Let no more jobs of a type start."""
        self.hold_back(PauseTarget.TYPE, job if isinstance(job, str) else job.name, is_on=True)

    def resume(self, job: str | JobFunction[..., Any]) -> None:
        """Let jobs of a type start again, or raise PauseRefused if it is not paused."""
        self.hold_back(PauseTarget.TYPE, job if isinstance(job, str) else job.name, is_on=False)

    def hold_back(self, target: PauseTarget, name: str, *, is_on: bool) -> None:
        """Hold a type, a worker or a version back, or let it go on."""
        finish((pause if is_on else resume)(self.dispatcher, target, name))
        finish(self.dispatcher.turn())

    @overload
    def submit_many(
        self, job: JobFunction[..., R], calls: Iterable[Any], /
    ) -> list[SandboxJob[R]]: ...

    @overload
    def submit_many(self, job: str, calls: Iterable[Any], /) -> list[SandboxJob[Any]]: ...

    def submit_many(
        self, job: str | JobFunction[..., Any], calls: Iterable[Any], /
    ) -> list[SandboxJob[Any]]:
        """Submit a job for each call: a tuple or list, a dict, or one argument, as in `Client`."""
        jobs = []
        for call in calls:
            if isinstance(call, dict):
                jobs.append(self.submit(job, **call))
            elif isinstance(call, tuple | list):
                jobs.append(self.submit(job, *call))
            else:
                jobs.append(self.submit(job, call))
        return jobs

    def run(self) -> None:
        """Do all that can be done without time passing."""
        with self.worker.lock.held():
            self._run()

    def _run(self) -> None:
        for _ in range(MAX_TURNS):
            finish(sweep.tick(self._ticks, self._declarations))
            finish(sweep.watch_the_clock(self.dispatcher, self._alarm_clock))
            if self.dispatcher.has_work:
                finish(self.dispatcher.turn())
            elif not self.worker.work():
                return
        raise RuntimeError(f"the sandbox was still busy after {MAX_TURNS} turns")

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping wherever something is due, and run what then can run."""
        until = self.clock() + seconds
        while True:
            self.run()
            times = (self._next_due(), self._ticks.timetable.next_look)
            due = min((at for at in times if at is not None), default=None)
            if due is None or due > until:
                break
            self.clock.advance_to(due)
        self.clock.advance_to(until)
        self.worker.beat()
        self.run()
        acts = (*sweep.OFTEN, *sweep.NOW_AND_THEN, *sweep.RARELY)
        finish(sweep.go_through(self.dispatcher, *acts))
        finish(sweep.share_limits(self.dispatcher))
        self.run()

    def _next_due(self) -> float | None:
        """Return when a job that is there needs something: an alarm, or the token of a rate."""
        times = (finish(self.store.next_alarm()), self.dispatcher.state.limits.next_due)
        return min((at for at in times if at is not None), default=None)

    def settle(self) -> None:
        """Let as much time pass as all waiting jobs need."""
        self.run()
        while (due := self._next_due()) is not None:
            self.advance(max(0.0, due - self.clock()))

    def crash_next(self, runs: int = 1) -> None:
        """Let the processes of the next runs die, as if they had been killed."""
        self.worker.crashes = runs

    def call(self, job: Job) -> None:
        """Take note of a callback instead of making it."""
        assert job.callback is not None
        self.callbacks.append((job.callback.url, job.id))
        self.dispatcher.callback_attempted(job.id, job.callback.tries, None)

    def job(self, job_id: str) -> Job:
        """Return a job's record."""
        (job,) = finish(self.store.get([job_id], payload=True))
        if job is None:
            raise JobNotFound(job_id)
        return job

    def signal(
        self,
        job_id: str,
        name: str,
        value: Any = None,
        *,
        id: str = "",  # noqa: A002
    ) -> None:
        """Send a job a signal, or raise JobRefused; nothing runs before `run()` or `advance()`."""
        document = sealed_signal(self.codec, signal_body(job_id, name, value), job_id)
        sent = Signal(job_id, name, id or self.new_id(), document)
        if fault := signal_fault(sent):
            raise JobRefused(job_id, *fault)
        receipts: list[Receipt] = []
        self.dispatcher.signal([sent.entry(now=self.clock())], receipts.extend)
        while not receipts:
            finish(self.dispatcher.turn())
        raise_refusal(receipts[0])

    def journal(self, job_id: str, kind: EntryKind) -> list[JournalEntry]:
        """Return what a job has kept."""
        found: list[JournalEntry] = []
        while True:
            page = finish(self.store.journal(job_id, kind, after=found[-1].key if found else ""))
            found += page.entries
            if not page.is_more:
                return [opened_entry(self.codec, entry) for entry in found]

    def opened(self, job: Job) -> Job:
        """Return a record as a client with the app's codec sees it."""
        return opened_job(self.codec, job)

    def cancel(self, job_id: str) -> None:
        """Ask for a job to be stopped, or raise JobRefused."""
        receipts: list[Receipt] = []
        self.dispatcher.cancel([job_id], receipts.extend)
        finish(self.dispatcher.turn())
        raise_refusal(receipts[0])
