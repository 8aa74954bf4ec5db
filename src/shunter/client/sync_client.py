"""The synchronous client: the asynchronous one on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from os import PathLike
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from shunter.app import JobFunction
from shunter.client.addresses import checked_addresses
from shunter.client.async_client import AsyncClient
from shunter.client.handle import AsyncJob, R_co, value_of
from shunter.client.limits import Limits
from shunter.client.pauses import JobType
from shunter.client.runs import WorkflowRuns
from shunter.client.schedules import AsyncSchedules, Schedules
from shunter.client.submit_options import SubmitOptions
from shunter.client.workflow import Call, RunPlan, Workflow
from shunter.codec import Codec
from shunter.model.explanation import Explanation
from shunter.model.job import Job, Status
from shunter.model.job_log import LogPiece, LogRestart
from shunter.model.journal import EntryKind, JournalEntry
from shunter.model.pause import Pause
from shunter.model.submission import Receipt
from shunter.model.worker import Worker
from shunter.tracing import current_traceparent, is_tracing
from shunter.wire.messages import Outcome, Standing

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class SubmittedJob(Generic[R_co]):
    """A job that was submitted."""

    def __init__(self, client: Client, job: AsyncJob[R_co]) -> None:
        self._client = client
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def id(self) -> str:
        """The job's id, by which anybody may ask for it."""
        return self._job.id

    @property
    def type(self) -> str:
        """The job's type; empty for a handle that was made of an id."""
        return self._job.type

    @property
    def is_done(self) -> bool:
        """True if the outcome is known here; `status()` asks the dispatcher."""
        return self._job.is_done

    def result(self, timeout: float | None = None) -> R_co:
        """Wait for the result; raise JobFailed, JobCancelled or ResultTimeout."""
        found: R_co = value_of(self.wait(timeout), self._job.read_result)
        return found

    def wait(self, timeout: float | None = None) -> Outcome:
        """Wait until the job has ended, however it ended."""
        return self._job.known_outcome() or self._client._do(self._job.wait(timeout))

    def status(self) -> Status:
        """Ask the dispatcher how far the job is."""
        return self._client._do(self._job.status())

    def why(self) -> Explanation:
        """Ask why the job does not run, who runs it, or where its time went."""
        return self._client._do(self._job.why())

    def cancel(self) -> None:
        """Ask for the job to be stopped, or raise JobRefused where it can't be."""
        self._client._do(self._job.cancel())

    def signal(self, name: str, value: Any = None, *, id: str = "") -> None:  # noqa: A002
        """Send the job a signal, or raise JobRefused; of those with one `id` the first counts."""
        self._client.signal(self.id, name, value, id=id)

    def stream(
        self, *, on_restart: Callable[[int], None] | None = None, timeout: float | None = None
    ) -> Iterator[Any]:
        """Yield what the handler emits, from the start, until the job has ended.

        If a run is repeated, `on_restart` is called with the number of the first chunk that is
        void; without it, StreamRestarted is raised. ResultTimeout is raised if nothing comes for
        `timeout` seconds.
        """
        chunks = self._job.stream(on_restart=on_restart, timeout=timeout)
        while (chunk := self._client._do(_next_chunk(chunks))) is not _END:
            yield chunk

    def log(self) -> str:
        """Return what the current run has printed so far, or the last one if none is under way.

        Of a run that goes on it is the last 16 KiB, a second or two old.
        """
        return self._client._do(self._job.log())

    def follow_log(
        self, *, on_restart: Callable[[int], None] | None = None, timeout: float | None = None
    ) -> Iterator[str]:
        """Yield what the handler prints, a second or two later, until the job has ended.

        If the job runs again, `on_restart` is called with the attempt whose log follows.
        ResultTimeout is raised if nothing comes for `timeout` seconds.
        """
        pieces = self._job.follow_log(on_restart=on_restart, timeout=timeout)
        while (piece := self._client._do(_next_chunk(pieces))) is not _END:
            yield piece


class Client:
    """Submits jobs to dispatchers. Use it with `with`, from any thread.

    `codec` is that of the app that does the jobs. Jobs that are submitted as functions of an app
    with a codec use that one.
    """

    def __init__(
        self,
        *addresses: str,
        timeout: float = 10.0,
        max_payload_bytes: int = 16 << 20,
        codec: Codec | None = None,
        key_file: str | PathLike[str] | None = None,
    ) -> None:
        addresses = checked_addresses(addresses)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="shunter-client", daemon=True
        )
        self._thread.start()
        made = partial(
            AsyncClient,
            *addresses,
            timeout=timeout,
            max_payload_bytes=max_payload_bytes,
            codec=codec,
            key_file=key_file,
        )
        self._async: AsyncClient = self._do(_called(made))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; jobs that were submitted go on."""
        if self._loop.is_closed():
            return
        self._do(self._async.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def with_options(self, **options: Unpack[SubmitOptions]) -> Client:
        """Return this client with other options for what it submits: priority, delay, ..."""
        view = Client.__new__(Client)
        view.__dict__ = {**self.__dict__, "_async": self._async.with_options(**options)}
        return view

    @property
    def unserved(self) -> tuple[str, ...]:
        """The types last submitted that no worker does yet."""
        return self._async.unserved

    @property
    def similar(self) -> dict[str, str]:
        """For types last submitted that no worker does: one that is served and spelt like it."""
        return self._async.similar

    @property
    def schedules(self) -> Schedules[SubmittedJob[Any]]:
        """The schedules by which jobs are made again and again."""
        asynchronous = self._async
        inner = AsyncSchedules(asynchronous._session.ask, asynchronous, self.job_handle)
        return Schedules(inner, self._do)

    @property
    def limits(self) -> Limits:
        """How many jobs of a type may run at once and start in a while, and who holds what."""
        return Limits(self._async.limits, self._do)

    @property
    def runs(self) -> WorkflowRuns:
        """The runs of workflows: to look at, to cancel, and to do again."""
        return WorkflowRuns(self._async.runs, self._do, lambda job: SubmittedJob(self, job))

    @overload
    def submit(
        self, job: JobFunction[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> SubmittedJob[R]: ...

    @overload
    def submit(self, job: str, /, *args: Any, **kwargs: Any) -> SubmittedJob[Any]: ...

    def submit(self, job: JobType, /, *args: Any, **kwargs: Any) -> SubmittedJob[Any]:
        """Submit one job; when this returns, it is stored."""
        return SubmittedJob(self, self._do(self._submitting().submit(job, *args, **kwargs)))

    @overload
    def submit_many(
        self, job: JobFunction[..., R], calls: Iterable[Any]
    ) -> list[SubmittedJob[R]]: ...

    @overload
    def submit_many(self, job: str, calls: Iterable[Any]) -> list[SubmittedJob[Any]]: ...

    def submit_many(self, job: JobType, calls: Iterable[Any]) -> list[SubmittedJob[Any]]:
        """Submit a job for each call; return when all are stored.

        A call is a tuple or list of positional arguments, a dict of named ones, or one argument.
        """
        jobs = self._do(self._submitting().submit_many(job, calls))
        return [SubmittedJob(self, handle) for handle in jobs]

    def submit_raw(self, job_type: str, payload: bytes, *, job_id: str = "") -> SubmittedJob[Any]:
        """Submit a payload that is a msgpack document already, perhaps under an id of yours."""
        work = self._submitting().submit_raw(job_type, payload, job_id=job_id)
        return SubmittedJob(self, self._do(work))

    def workflow(self, name: str, *, run: str = "") -> Workflow[SubmittedJob[Any]]:
        """Put together jobs that wait for jobs; use it with `with`, which stores them all.

        `run` names the run; without one, a new name is made.
        """
        client = self._submitting()
        plan = Workflow(
            name,
            run or client.new_id(),
            submission=client.node_submission,
            handle=lambda submission, job: SubmittedJob(self, client.node_handle(submission, job)),
        )
        plan.commit = self._commit_run
        return plan

    def batch(
        self,
        calls: Iterable[Call],
        *,
        then: Call,
        when: str | None = None,
    ) -> SubmittedJob[Any]:
        """Submit a job for each call, and one that comes after all of them; return that one.

        A call is the job and its arguments: `[("load", 1), ("load", 2)]`, `then=("report", "x")`.
        """
        return SubmittedJob(self, self._do(self._submitting().batch(calls, then=then, when=when)))

    def _commit_run(self, plan: RunPlan[SubmittedJob[Any]]) -> None:
        inner: RunPlan[AsyncJob[Any]] = RunPlan(
            plan.workflow,
            plan.id,
            submission=self._async.node_submission,
            handle=self._async.node_handle,
        )
        inner.submissions, inner.jobs = plan.submissions, [job._job for job in plan.jobs]
        self._do(self._async.commit_run(inner))

    def rerun(
        self,
        job_id: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        new_id: str = "",
        from_step: str = "",
    ) -> SubmittedJob[Any]:
        """Do an ended job again, as a new one; return when that is stored.

        It has the arguments of the first, or all of `args` and `kwargs` in their place. Under a
        `new_id` of yours it may be asked for again and remains one job. With `from_step` it has the
        steps that the first had kept before that one.
        """
        work = self._async.rerun(
            job_id, args=args, kwargs=kwargs, new_id=new_id, from_step=from_step
        )
        return SubmittedJob(self, self._do(work))

    def rerun_many(
        self,
        job_ids: Sequence[str],
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        new_ids: Sequence[str] = (),
    ) -> list[SubmittedJob[Any]]:
        """Do ended jobs again, each as a new one; raise JobNotFound if one is not there."""
        work = self._async.rerun_many(job_ids, args=args, kwargs=kwargs, new_ids=new_ids)
        return [SubmittedJob(self, handle) for handle in self._do(work)]

    def as_completed(
        self, jobs: Iterable[SubmittedJob[R]], timeout: float | None = None
    ) -> Iterator[SubmittedJob[R]]:
        """Yield jobs as they end; raise ResultTimeout if that takes longer than `timeout`."""
        by_handle = {id(job._job): job for job in jobs}
        completed = self._async.as_completed([job._job for job in by_handle.values()], timeout)
        while (handle := self._do(_next(completed))) is not None:
            yield by_handle[id(handle)]

    def job_handle(self, job_id: str, job_type: str = "") -> SubmittedJob[Any]:
        """Return a handle for a job, whoever submitted it."""
        return SubmittedJob(self, self._async.job_handle(job_id, job_type))

    def cancel(self, job_ids: Sequence[str]) -> list[Receipt]:
        """Ask for jobs to be stopped; a receipt with a reason says why one can't be."""
        return self._do(self._async.cancel(job_ids))

    def signal(
        self,
        job_id: str,
        name: str,
        value: Any = None,
        *,
        id: str = "",  # noqa: A002
    ) -> None:
        """Send a job a signal, as the asynchronous client does."""
        self._do(self._async.signal(job_id, name, value, id=id))

    def log(self, job_id: str) -> str:
        """Return what a job's current run has printed so far, or its last one if none is."""
        return self._do(self._async.log(job_id))

    def log_pieces(self, job_id: str) -> Iterator[LogPiece | LogRestart]:
        """Yield what a job prints, and that it runs again, until it has ended."""
        pieces = self._async.log_pieces(job_id)
        while (piece := self._do(_next_chunk(pieces))) is not _END:
            yield piece

    def journal(self, job_id: str, kind: EntryKind = EntryKind.STEP) -> list[JournalEntry]:
        """Return what a job has kept: its steps, or the signals that it was sent."""
        return self._do(self._async.journal(job_id, kind))

    def job(self, job_id: str) -> Job:
        """Return a job's whole record."""
        return self._do(self._async.job(job_id))

    def why(self, job_id: str) -> Explanation:
        """Return why a job does not run, who runs it, or where the time of an ended one went."""
        return self._do(self._async.why(job_id))

    def jobs(self, **query: Any) -> list[Job]:
        """List jobs, newest first, as the asynchronous client does."""
        return self._do(self._async.jobs(**query))

    def pause(self, job_type: JobType) -> None:
        """Let no dispatcher start more jobs of a type, from 2 s on; what runs goes on."""
        self._do(self._async.pause(job_type))

    def resume(self, job_type: JobType) -> None:
        """Let jobs of a type start again, or raise PauseRefused if it is not paused."""
        self._do(self._async.resume(job_type))

    def drain(self, worker_id: str = "", *, version: str = "") -> None:
        """Give nothing new to a worker, or to all workers of a version, from 2 s on."""
        self._do(self._async.drain(worker_id, version=version))

    def undrain(self, worker_id: str = "", *, version: str = "") -> None:
        """Give jobs again to what was drained."""
        self._do(self._async.undrain(worker_id, version=version))

    def pauses(self) -> list[Pause]:
        """Return all that is held back: types, workers and versions."""
        return self._do(self._async.pauses())

    def workers(self) -> list[Worker]:
        """Return all workers, and the ids of the jobs that each has."""
        return self._do(self._async.workers())

    def standing(self) -> Standing:
        """Return counts of jobs by type and status, and what the dispatcher has counted."""
        return self._do(self._async.standing())

    def _submitting(self) -> AsyncClient:
        """Return the client that submits; spans belong to the caller's thread, not to its own."""
        return self._async.within(current_traceparent()) if is_tracing() else self._async

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _called(make: Callable[[], T]) -> T:
    """Make it where a loop runs."""
    return make()


_END = object()


async def _next_chunk(chunks: AsyncIterator[Any]) -> Any:
    return await anext(chunks, _END)


async def _next(jobs: AsyncIterator[AsyncJob[R]]) -> AsyncJob[R] | None:
    return await anext(jobs, None)
