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
from typing import Any, TypeVar

from shunter.client.addresses import checked_addresses
from shunter.client.async_client import AsyncClient, JobType
from shunter.client.handle import AsyncJob, value_of
from shunter.client.schedules import AsyncSchedules, Schedules
from shunter.codec import Codec
from shunter.model.job import Job, Status
from shunter.model.limits_record import TypeLimits
from shunter.model.pause import Pause
from shunter.model.submission import Receipt
from shunter.model.worker import Worker
from shunter.tracing import current_traceparent, is_tracing
from shunter.wire.messages import Outcome, Standing

T = TypeVar("T")


class SubmittedJob:
    """A job that was submitted."""

    def __init__(self, client: Client, job: AsyncJob) -> None:
        self._client = client
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def id(self) -> str:
        """The job's id, by which anybody may ask for it."""
        return self._job.id

    @property
    def is_done(self) -> bool:
        """True if the outcome is known here; `status()` asks the dispatcher."""
        return self._job.is_done

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result; raise JobFailed, JobCancelled or ResultTimeout."""
        return value_of(self.wait(timeout))

    def wait(self, timeout: float | None = None) -> Outcome:
        """Wait until the job has ended, however it ended."""
        return self._job.known_outcome() or self._client._do(self._job.wait(timeout))

    def status(self) -> Status:
        """Ask the dispatcher how far the job is."""
        return self._client._do(self._job.status())

    def cancel(self) -> None:
        """Ask for the job to be stopped, or raise JobRefused where it can't be."""
        self._client._do(self._job.cancel())


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

    def with_options(self, **options: Any) -> Client:
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
    def schedules(self) -> Schedules[SubmittedJob]:
        """The schedules by which jobs are made again and again."""
        asynchronous = self._async
        inner = AsyncSchedules(asynchronous._session.ask, asynchronous, self.job_handle)
        return Schedules(inner, self._do)

    def submit(self, job: JobType, /, *args: Any, **kwargs: Any) -> SubmittedJob:
        """Submit one job; when this returns, it is stored."""
        return SubmittedJob(self, self._do(self._submitting().submit(job, *args, **kwargs)))

    def submit_many(self, job: JobType, calls: Iterable[Any]) -> list[SubmittedJob]:
        """Submit a job for each call; return when all are stored.

        A call is a tuple or list of positional arguments, a dict of named ones, or one argument.
        """
        jobs = self._do(self._submitting().submit_many(job, calls))
        return [SubmittedJob(self, handle) for handle in jobs]

    def submit_raw(self, job_type: str, payload: bytes, *, job_id: str = "") -> SubmittedJob:
        """Submit a payload that is a msgpack document already, perhaps under an id of yours."""
        work = self._submitting().submit_raw(job_type, payload, job_id=job_id)
        return SubmittedJob(self, self._do(work))

    def rerun(
        self,
        job_id: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        new_id: str = "",
    ) -> SubmittedJob:
        """Do an ended job again, as a new one; return when that is stored.

        It has the arguments of the first, or all of `args` and `kwargs` in their place. Under a
        `new_id` of yours it may be asked for again and remains one job.
        """
        work = self._async.rerun(job_id, args=args, kwargs=kwargs, new_id=new_id)
        return SubmittedJob(self, self._do(work))

    def rerun_many(
        self,
        job_ids: Sequence[str],
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        new_ids: Sequence[str] = (),
    ) -> list[SubmittedJob]:
        """Do ended jobs again, each as a new one; raise JobNotFound if one is not there."""
        work = self._async.rerun_many(job_ids, args=args, kwargs=kwargs, new_ids=new_ids)
        return [SubmittedJob(self, handle) for handle in self._do(work)]

    def as_completed(
        self, jobs: Iterable[SubmittedJob], timeout: float | None = None
    ) -> Iterator[SubmittedJob]:
        """Yield jobs as they end; raise ResultTimeout if that takes longer than `timeout`."""
        by_handle = {id(job._job): job for job in jobs}
        completed = self._async.as_completed([job._job for job in by_handle.values()], timeout)
        while (handle := self._do(_next(completed))) is not None:
            yield by_handle[id(handle)]

    def job_handle(self, job_id: str) -> SubmittedJob:
        """Return a handle for a job that was submitted elsewhere."""
        return SubmittedJob(self, self._async.job_handle(job_id))

    def cancel(self, job_ids: Sequence[str]) -> list[Receipt]:
        """Ask for jobs to be stopped; a receipt with a reason says why one can't be."""
        return self._do(self._async.cancel(job_ids))

    def job(self, job_id: str) -> Job:
        """Return a job's whole record."""
        return self._do(self._async.job(job_id))

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

    def limits(self) -> list[TypeLimits]:
        """Return the limits of all types that have any, and who holds how many places."""
        return self._do(self._async.limits())

    def set_limits(self, job: JobType, /, **change: Any) -> TypeLimits:
        """Change a type's limits while it runs, as the asynchronous client does."""
        return self._do(self._async.set_limits(job, **change))

    def _submitting(self) -> AsyncClient:
        """Return the client that submits; spans belong to the caller's thread, not to its own."""
        return self._async.within(current_traceparent()) if is_tracing() else self._async

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _called(make: Callable[[], T]) -> T:
    """Make it where a loop runs."""
    return make()


async def _next(jobs: AsyncIterator[AsyncJob]) -> AsyncJob | None:
    return await anext(jobs, None)
