"""A workflow as it is put together: jobs that wait for jobs, sent as a whole when the block ends.

Ids are made here, so a job may be named by those that wait for it before anything is stored, and
a submission that is repeated remains one. Nothing is sent if the block raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from shunter.app import JobFunction, payload_of
from shunter.errors import AppError
from shunter.model.submission import Submission


class HasId(Protocol):
    """A job that was submitted, or is about to be."""

    @property
    def id(self) -> str: ...


H = TypeVar("H", bound=HasId)

JobType = str | JobFunction[..., Any]
Parents = HasId | str | Iterable[HasId | str]
Call = Sequence[Any] | JobType
MakeWish = Callable[[JobType, bytes, dict[str, Any]], Submission]


class Block:
    """Whether jobs can be added: what is added before or behind it would never be sent."""

    is_open = False
    is_over = False


class RunPlan(Generic[H]):
    """The jobs of one run: `id` is the run's, `jobs` are handles in the order of the calls.

    `submission` makes a submission of a job, its payload and options; `handle` a handle of that.
    """

    def __init__(
        self,
        workflow: str,
        run_id: str,
        *,
        submission: MakeWish,
        handle: Callable[[Submission, JobType], H],
    ) -> None:
        self.workflow, self.id = workflow, run_id
        self.jobs: list[H] = []
        self.submissions: list[Submission] = []
        self._submission, self._handle = submission, handle
        self._options: dict[str, Any] = {}
        self.block = Block()

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.workflow}: {len(self.jobs):,} jobs>"

    def with_options(self, **options: Any) -> RunPlan[H]:
        """Return this run with other options for the jobs that it is given: priority, retry, ..."""
        view: RunPlan[H] = RunPlan.__new__(RunPlan)
        view.__dict__ = {**self.__dict__, "_options": {**self._options, **options}}
        return view

    def job(
        self,
        job: JobType,
        /,
        *args: Any,
        after: Parents = (),
        when: str | None = None,
        **kwargs: Any,
    ) -> H:
        """Add a job that runs once those it comes `after` have ended, and return its handle.

        `after` takes jobs of this run, other handles, or ids of jobs that were submitted before;
        `when` is all_ok, all_done or any_failed.
        """
        if not self.block.is_open:
            remedy = (
                f"its block has ended; open another with workflow({self.workflow!r}, "
                f"run={self.id!r})"
                if self.block.is_over
                else "its block has not begun; use it in a `with`, which sends its jobs at the end"
            )
            raise AppError(f"run {self.id}: this job would never be sent: {remedy}")
        parents = ids_of(after)
        submission = self._submission(job, payload_of(*args, **kwargs), self._options)
        submission = replace(
            submission, workflow=self.workflow, run=self.id, after=parents or None, when=when
        )
        handle = self._handle(submission, job)
        self.submissions.append(submission)
        self.jobs.append(handle)
        return handle


def ids_of(after: Parents) -> tuple[str, ...]:
    """Return the ids of jobs that are named by themselves, by an id, or in a list."""
    if isinstance(after, str):
        return (after,)
    if isinstance(name := getattr(after, "id", None), str):
        return (name,)
    if not isinstance(after, Iterable):
        raise AppError(f"after: found {after!r}; give jobs, ids of jobs, or a list of these")
    return tuple(parent for one in after for parent in ids_of(one))


def add_batch(run: RunPlan[H], calls: Iterable[Call], then: Call, when: str | None) -> H:
    """Add a job for each call, and one that comes after all of them; return that one."""
    run.block.is_open = True
    if isinstance(calls, str | Mapping) or not isinstance(calls, Iterable):
        raise AppError(f'batch: found {calls!r}; give a list of calls, as [("load", 1)]')
    parts = [run.job(*_parts_of(call)) for call in calls]
    return run.job(*_parts_of(then), after=parts, when=when)


def _parts_of(call: Call) -> tuple[Any, ...]:
    """Return a job and its arguments; a job alone is called without any."""
    if isinstance(call, str | JobFunction):
        return (call,)
    if not isinstance(call, Sequence) or not call:
        raise AppError(f'batch: found {call!r}; give a job and its arguments, as ("load", 1)')
    return tuple(call)


def as_whole(submissions: Sequence[Submission]) -> Sequence[Submission]:
    """Return submissions of which all are stored or none, also if none waits for another."""
    first, *rest = submissions
    return submissions if first.after is not None else (replace(first, after=()), *rest)


class AsyncWorkflow(RunPlan[H]):
    """A run that is sent when an `async with` block ends."""

    commit: Callable[[RunPlan[H]], Awaitable[None]]

    async def __aenter__(self) -> AsyncWorkflow[H]:
        self.block.is_open = True
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self.block.is_open, self.block.is_over = False, True
        if kind is None and self.submissions:
            await self.commit(self)


class Workflow(RunPlan[H]):
    """A run that is sent when a `with` block ends."""

    commit: Callable[[RunPlan[H]], None]

    def __enter__(self) -> Workflow[H]:
        self.block.is_open = True
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.block.is_open, self.block.is_over = False, True
        if kind is None and self.submissions:
            self.commit(self)
