"""The asynchronous client. The synchronous one is a face over it.

A job's id is made here, before it is sent: so a submission may be repeated, by us or by the
user, and remains one job. Results are pushed by the dispatcher; what was missed is asked for.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from msgspec.structs import replace

from shunter.app import JobFunction, payload_of
from shunter.client.addresses import checked_addresses
from shunter.client.handle import AsyncJob, raise_refusal
from shunter.client.input_checks import (
    check_size,
    checked_ids,
    checked_names,
    checked_query,
    checked_type,
)
from shunter.client.job_journals import JobJournals, signal_body
from shunter.client.job_logs import JobLogs
from shunter.client.limits import AsyncLimits
from shunter.client.options import JobOptions
from shunter.client.pauses import AsyncPauses, JobType
from shunter.client.pending_outcomes import PendingOutcomes
from shunter.client.questions import ask_why
from shunter.client.runs import AsyncWorkflowRuns
from shunter.client.schedules import AsyncSchedules
from shunter.client.sealed_values import (
    check_unique,
    is_same_call,
    opened_job,
    opened_payload,
    sealed_payload,
)
from shunter.client.session import OpenSession, Session
from shunter.client.session_opener import session_opener
from shunter.client.submit_options import SubmitOptions
from shunter.client.workflow import AsyncWorkflow, Call, RunPlan, add_batch, as_whole
from shunter.codec import Codec
from shunter.errors import (
    JobNotFound,
    ResultTimeout,
    UniqueKeyTaken,
)
from shunter.key_file import read_caller_key
from shunter.model.document import NIL
from shunter.model.explanation import Explanation
from shunter.model.identity import RisingIds
from shunter.model.job import Job
from shunter.model.job_log import LogPiece, LogRestart
from shunter.model.journal import EntryKind, JournalEntry
from shunter.model.resubmission import resubmission
from shunter.model.submission import Receipt, Submission
from shunter.model.worker import Worker
from shunter.net.environment import REAL, Environment
from shunter.payload import payload_of_call, payload_of_parts
from shunter.tracing import current_traceparent, is_tracing
from shunter.wire.batches import batches
from shunter.wire.messages import (
    Accepted,
    BareRequest,
    Cancel,
    Fetch,
    Fetched,
    JobsAsked,
    JobsListed,
    Kind,
    Standing,
    Submit,
    WorkersListed,
)

BATCH_JOBS = 500
BATCHES_UNDER_WAY = 4
SHOWN_AT_ONCE = 500

RERUN_AT_ONCE = 100
"""So many jobs that are to be done again are here at the same time, with their payloads."""

OPTIONS_OF_HANDLER = ("priority", "timeout", "retry", "effects")
"""Where a submission does not say them, they are as the function declares them."""

P = ParamSpec("P")
R = TypeVar("R")


class AsyncClient(AsyncPauses):
    """Submits jobs to dispatchers. Use it with `async with`.

    `codec` is that of the app that does the jobs. Jobs that are submitted as functions of an app
    with a codec use that one.
    """

    def __init__(
        self,
        *addresses: str,
        timeout: float = 10.0,
        max_payload_bytes: int = 16 * 1024 * 1024,
        options: JobOptions = JobOptions(),  # noqa: B008
        codec: Codec | None = None,
        key_file: str | PathLike[str] | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._options, self._codec = options, codec
        self._environment = environment
        self._ids = RisingIds()
        self._awaited = PendingOutcomes(self._fetch, environment)
        # In a handler that a sandbox runs, the sandbox answers and no address is called.
        opened: OpenSession = session_opener.get() or Session
        self._session = opened(
            checked_addresses(addresses),
            timeout=timeout,
            on_outcomes=self._awaited.settle,
            curve=None if key_file is None else read_caller_key(os.fspath(key_file)).pair,
            environment=environment,
        )
        self._max_payload_bytes = max_payload_bytes

    @property
    def unserved(self) -> tuple[str, ...]:
        """The types last submitted that no worker does yet."""
        return self._session.unserved

    @property
    def similar(self) -> dict[str, str]:
        """For types last submitted that no worker does: one that is served and spelt like it."""
        return dict(self._session.similar)

    def _hint(self, job_type: str) -> str:
        if job_type not in self._session.unserved:
            return ""
        found = self._session.similar.get(job_type)
        question = f"; did you mean {found!r}?" if found else ""
        return f"no worker did {job_type!r} when it was submitted{question}"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; jobs that were submitted go on."""
        await self._awaited.close()
        self._session.close()

    def with_options(self, **options: Unpack[SubmitOptions]) -> AsyncClient:
        """Return this client with other options for what it submits: priority, delay, ..."""
        checked_names(options, JobOptions.__struct_fields__)
        view = AsyncClient.__new__(AsyncClient)
        view.__dict__ = {**self.__dict__}
        view._options = replace(self._options, **options)
        return view

    def within(self, traceparent: str | None) -> AsyncClient:
        """Return this client for jobs of one span, unless its options name one already."""
        if traceparent is None or self._options.traceparent is not None:
            return self
        return self.with_options(traceparent=traceparent)

    @property
    def schedules(self) -> AsyncSchedules[AsyncJob[Any]]:
        """The schedules by which jobs are made again and again."""
        return AsyncSchedules(self._session.ask, self, self.job_handle)

    @property
    def limits(self) -> AsyncLimits:
        """How many jobs of a type may run at once and start in a while, and who holds what."""
        return AsyncLimits(self._session.ask)

    @property
    def runs(self) -> AsyncWorkflowRuns:
        """The runs of workflows: to look at, to cancel, and to do again."""
        return AsyncWorkflowRuns(self._session.ask, self)

    def template(self, job: JobType, payload: bytes) -> Submission:
        """Return a job as it would be submitted, but without a name and without sealing it."""
        fields = self._options.fields()
        if not isinstance(job, JobFunction):
            return Submission("", checked_type(job), payload, **fields)
        for name in OPTIONS_OF_HANDLER:
            if fields[name] is None:
                fields[name] = getattr(job.handler, name)
        return Submission("", job.handler.type, payload, **fields)

    def codec_for(self, job: JobType) -> Codec | None:
        """Return the codec of the function's own app, or else the client's."""
        return (job.codec if isinstance(job, JobFunction) else None) or self._codec

    def new_id(self) -> str:
        """Return a name that no other job has."""
        entropy = int.from_bytes(self._environment.token_bytes(10))
        return self._ids.next(self._environment.wall(), entropy)

    # ---- submitting

    @overload
    async def submit(
        self, job: JobFunction[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncJob[R]: ...

    @overload
    async def submit(self, job: str, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]: ...

    async def submit(self, job: JobType, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]:
        """Submit one job; when this returns, it is stored."""
        template = self.template(job, NIL)
        submission = self._submission(template, self.codec_for(job), payload_of(*args, **kwargs))
        (handle,) = await self._send_calls([submission], job)
        return handle

    @overload
    async def submit_many(
        self, job: JobFunction[..., R], calls: Iterable[Any]
    ) -> list[AsyncJob[R]]: ...

    @overload
    async def submit_many(self, job: str, calls: Iterable[Any]) -> list[AsyncJob[Any]]: ...

    async def submit_many(self, job: JobType, calls: Iterable[Any]) -> list[AsyncJob[Any]]:
        """Submit a job for each call; return when all are stored.

        A call is a tuple or list of positional arguments, a dict of named ones, or one argument.
        """
        return [handle async for batch in self.submitting(job, calls) for handle in batch]

    async def submitting(
        self, job: JobType, calls: Iterable[Any]
    ) -> AsyncIterator[list[AsyncJob[Any]]]:
        """Submit a job for each call, yielding handles as they are stored, some at a time."""
        template, codec = self.template(job, NIL), self.codec_for(job)
        submissions = (self._submission(template, codec, payload_of_call(call)) for call in calls)
        waiting = batches(submissions, lambda it: len(it.payload), most=BATCH_JOBS)
        while some := list(itertools.islice(waiting, BATCHES_UNDER_WAY)):
            handles = await asyncio.gather(*(self._send_calls(batch, job) for batch in some))
            yield list(itertools.chain.from_iterable(handles))

    async def submit_raw(self, job_type: str, payload: bytes, *, job_id: str = "") -> AsyncJob[Any]:
        """Submit a payload that is a msgpack document already, perhaps under an id of yours."""
        submission = self._submission(self.template(job_type, NIL), self._codec, payload, job_id)
        (handle,) = await self._send([submission], self._codec)
        return handle

    def workflow(self, name: str, *, run: str = "") -> AsyncWorkflow[AsyncJob[Any]]:
        """Put together jobs that wait for jobs; use it with `async with`, which stores them all.

        `run` names the run; without one, a new name is made.
        """
        run = run or self.new_id()
        plan = AsyncWorkflow(name, run, submission=self.node_submission, handle=self.node_handle)
        plan.commit = self.commit_run
        return plan

    async def batch(
        self,
        calls: Iterable[Call],
        *,
        then: Call,
        when: str | None = None,
    ) -> AsyncJob[Any]:
        """Submit a job for each call, as `("load", 1)`, and one after all; return that one."""
        plan = self.workflow("batch")
        last = add_batch(plan, calls, then, when)
        await self.commit_run(plan)
        return last

    def node_submission(self, job: JobType, payload: bytes, options: dict[str, Any]) -> Submission:
        """Return a job of a run as it is to be submitted."""
        view = self.with_options(**options) if options else self
        return view._submission(view.template(job, NIL), view.codec_for(job), payload)

    def node_handle(self, submission: Submission, job: JobType) -> AsyncJob[Any]:
        """Return the handle of a job that is about to be submitted."""
        handle: AsyncJob[Any] = AsyncJob(self, submission.id, submission.type, self.codec_for(job))
        handle.is_planned = True
        return handle

    async def commit_run(self, plan: RunPlan[AsyncJob[Any]]) -> None:
        """Submit the jobs of a run as a whole; raise JobRefused if they are not accepted."""
        for handle in plan.jobs:
            self._awaited.add(handle)
        await self._send(as_whole(plan.submissions), None)
        for handle in plan.jobs:
            handle.is_planned = False

    async def in_full(self, job_ids: list[str]) -> list[Job]:
        """Return jobs with all their bytes, as they are stored."""
        return await self._jobs_in_full(job_ids)

    def rerun_submission(self, job: Job) -> Submission:
        """Return what to submit so that an ended job is done again under a new id."""
        return self._rerun_submission(job, None, "")

    async def send_graph(self, submissions: Sequence[Submission]) -> list[AsyncJob[Any]]:
        """Submit jobs that wait for each other."""
        return await self._send(as_whole(submissions), self._codec)

    async def rerun(
        self,
        job_id: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        new_id: str = "",
        from_step: str = "",
    ) -> AsyncJob[Any]:
        """Do an ended job again, as a new one; return when that is stored.

        It has the arguments of the first, or all of `args` and `kwargs` in their place. Under a
        `new_id` of yours it may be asked for again and remains one job. With `from_step` it has the
        steps that the first had kept before that one.
        """
        new_id = new_id or self.new_id()
        journal = await self.journals.before(job_id, from_step, new_id) if from_step else None
        (handle,) = await self.rerun_many(
            [job_id], args=args, kwargs=kwargs, new_ids=[new_id], journal=journal
        )
        return handle

    async def rerun_many(
        self,
        job_ids: Sequence[str],
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        new_ids: Sequence[str] = (),
        journal: tuple[JournalEntry, ...] | None = None,
    ) -> list[AsyncJob[Any]]:
        """Do ended jobs again, each as a new one; raise JobNotFound if one is not there."""
        ids, names = list(job_ids), list(new_ids) or [""] * len(job_ids)
        handles: list[AsyncJob[Any]] = []
        payload = None
        if args is not None or kwargs is not None:
            payload = payload_of_parts(args, kwargs)
        for start in range(0, len(ids), RERUN_AT_ONCE):
            some = ids[start : start + RERUN_AT_ONCE]
            found = {job.id: job for job in await self._jobs_in_full(list(dict.fromkeys(some)))}
            submissions = []
            for job_id, new_id in zip(some, names[start:], strict=False):
                if job_id not in found:
                    raise JobNotFound(job_id)
                submission = self._rerun_submission(found[job_id], payload, new_id)
                submissions.append(replace(submission, journal=journal))
            for batch in batches(submissions, lambda it: len(it.payload), most=BATCH_JOBS):
                handles += await self._send(batch, self._codec)
        return handles

    def _rerun_submission(self, job: Job, payload: bytes | None, new_id: str) -> Submission:
        """Return what to submit; what is encrypted is so for one job, and is sealed anew."""
        new_id = new_id or self.new_id()
        if payload is None:
            payload = opened_payload(self._codec, job.payload or NIL, job.id, job.type)
        payload = sealed_payload(self._codec, payload, new_id, job.type)
        options = {
            name: value
            for name, value in self._options.fields().items()
            if value is not None and name != "reply"
        }
        submission = resubmission(job, new_id=new_id, payload=payload, reply=self._options.reply)
        return replace(submission, **options)

    def _submission(
        self, template: Submission, codec: Codec | None, payload: bytes, job_id: str = ""
    ) -> Submission:
        """Return what to submit: a job like the template, with a name and a sealed payload."""
        job_id = job_id or self.new_id()
        if codec is not None and template.unique is not None:
            check_unique(template.unique, job_id)
        payload = sealed_payload(codec, payload, job_id, template.type)
        check_size(payload, self._max_payload_bytes, job_id)
        if template.traceparent is None and is_tracing():
            template = replace(template, traceparent=current_traceparent())
        return replace(template, id=job_id, payload=payload)

    async def _send_calls(
        self, submissions: Sequence[Submission], job: JobType
    ) -> list[AsyncJob[Any]]:
        """Submit calls of a job; results are read as its function is annotated to return them."""
        handles = await self._send(submissions, self.codec_for(job))
        if isinstance(job, JobFunction):
            for handle in handles:
                handle.read_result = job.read_result
        return handles

    async def _send(
        self, submissions: Sequence[Submission], codec: Codec | None
    ) -> list[AsyncJob[Any]]:
        """Submit, and return the handles: results may arrive before the receipt does.

        Where a unique key belongs to an earlier job, the handle is that job's.
        """
        handles = [self._handle(it.id, it.type, codec) for it in submissions]
        answer = await self._session.ask(Kind.SUBMIT, lambda n: Submit(n, tuple(submissions)))
        assert isinstance(answer, Accepted)
        self._session.unserved = answer.unserved
        self._session.similar = {
            name: meant
            for name, meant in zip(answer.unserved, answer.similar, strict=False)
            if meant
        }
        for handle in handles if answer.unserved else ():
            handle.hint = self._hint(handle.type)
        receipts = list(answer.receipts)
        if codec is not None and any(receipt.reason for receipt in receipts):
            receipts = await self._judged_again(submissions, receipts, codec)
        for receipt in sorted(receipts, key=lambda it: it.field == "graph"):
            raise_refusal(receipt)
        return [
            handle
            if receipt.job_id == handle.id
            else self._handle(receipt.job_id, handle.type, codec)
            for handle, receipt in zip(handles, receipts, strict=True)
        ]

    async def _judged_again(
        self, submissions: Sequence[Submission], receipts: Sequence[Receipt], codec: Codec
    ) -> list[Receipt]:
        """Accept what was refused only because the same arguments are other bytes when sealed."""
        holders = [UniqueKeyTaken.holder_in(receipt.reason) for receipt in receipts]
        found = await self._jobs_in_full(list(dict.fromkeys(filter(None, holders))))
        by_id = {job.id: job for job in found}
        judged = []
        for submission, receipt, holder_id in zip(submissions, receipts, holders, strict=True):
            holder = by_id.get(holder_id or "")
            is_same = holder is not None and is_same_call(
                codec, submission.payload, holder, job_id=submission.id, type=submission.type
            )
            judged.append(Receipt(holder_id) if holder_id and is_same else receipt)
        return judged

    # ---- outcomes

    def job_handle(self, job_id: str, job_type: str = "") -> AsyncJob[Any]:
        """Return a handle for a job, whoever submitted it."""
        return self._handle(job_id, job_type, self._codec)

    def _handle(self, job_id: str, job_type: str, codec: Codec | None) -> AsyncJob[Any]:
        known = self._awaited.handle(job_id)
        return known or self._awaited.add(AsyncJob(self, job_id, job_type, codec))

    async def as_completed(
        self, jobs: Iterable[AsyncJob[R]], timeout: float | None = None
    ) -> AsyncIterator[AsyncJob[R]]:
        """Yield jobs as they end; raise ResultTimeout if that takes longer than `timeout`."""
        deadline = None if timeout is None else self._environment.monotonic() + timeout
        done: asyncio.Queue[AsyncJob[R]] = asyncio.Queue()
        left = 0
        for job in jobs:
            left += 1
            job.when_done(done.put_nowait)
        for _ in range(left):
            remaining = None if deadline is None else deadline - self._environment.monotonic()
            try:
                yield await asyncio.wait_for(done.get(), remaining)
            except TimeoutError:
                raise ResultTimeout("(several)", timeout or 0.0) from None

    def wants(self, job: AsyncJob[Any]) -> None:
        """See to it that the job's outcome arrives."""
        self._awaited.want(job)

    # ---- questions and orders

    async def _fetch(self, job_ids: tuple[str, ...]) -> Fetched:
        answer = await self._session.ask(Kind.FETCH, lambda n: Fetch(n, job_ids, parts=True))
        assert isinstance(answer, Fetched)
        return answer

    async def cancel(self, job_ids: Sequence[str]) -> list[Receipt]:
        """Ask for jobs to be stopped; a receipt with a reason says why one can't be."""
        ids = checked_ids("cancel()", job_ids)
        answer = await self._session.ask(Kind.CANCEL, lambda n: Cancel(n, ids))
        assert isinstance(answer, Accepted)
        return list(answer.receipts)

    async def signal(
        self,
        job_id: str,
        name: str,
        value: Any = None,
        *,
        id: str = "",  # noqa: A002
    ) -> None:
        """Send a job a signal, or raise JobRefused; of those with one `id` the first counts."""
        body = signal_body(job_id, name, value)
        await self.journals.signal(job_id, name, body, id or self.new_id())

    @property
    def journals(self) -> JobJournals:
        """What jobs have kept, and emit."""
        return JobJournals(self._session.ask, self._codec, self._environment)

    @property
    def logs(self) -> JobLogs:
        """What jobs print."""
        page = partial(self.journals.page, kind=EntryKind.LOG)
        return JobLogs(page, self.job, self._codec, self._environment)

    async def log(self, job_id: str) -> str:
        """Return what a job's current run has printed so far, or its last one if none is."""
        return await self.logs.log(job_id)

    def log_pieces(self, job_id: str) -> AsyncIterator[LogPiece | LogRestart]:
        """Yield what a job prints, and that it runs again, until it has ended."""
        return self.logs.follow(job_id)

    async def journal(self, job_id: str, kind: EntryKind = EntryKind.STEP) -> list[JournalEntry]:
        """Return what a job has kept: its steps, or the signals that it was sent."""
        return await self.journals.entries(job_id, kind)

    async def job(self, job_id: str) -> Job:
        """Return a job's whole record."""
        found = await self.jobs(job_ids=(job_id,))
        if not found:
            raise JobNotFound(job_id)
        return found[0]

    async def why(self, job_id: str) -> Explanation:
        """Return why a job does not run, who runs it, or where the time of an ended one went."""
        return await ask_why(self._session.ask, job_id)

    async def jobs(self, **query: Any) -> list[Job]:
        """List jobs, newest first, by status, type, worker_id, namespace, before, limit or job_ids.

        A status may be given as a word: `jobs(status="failed")`. They come without payload
        and result, which `job(id)` has.
        Those asked for by id come in that order and in full; one that is not there is left out.
        """
        query = checked_query(query)
        if job_ids := query.get("job_ids"):
            found = await self._jobs_in_full(list(dict.fromkeys(job_ids)))
            return [opened_job(self._codec, job) for job in found]
        answer = await self._session.ask(Kind.LIST, lambda n: JobsAsked(n, **query, parts=True))
        assert isinstance(answer, JobsListed)
        return [opened_job(self._codec, job) for job in answer.jobs]

    async def _jobs_in_full(self, job_ids: list[str]) -> list[Job]:
        """Ask until all are shown: an answer may end early, and always at its end."""
        shown: list[Job] = []
        while job_ids:
            some = tuple(job_ids[:SHOWN_AT_ONCE])
            answer = await self._session.ask(Kind.LIST, partial(JobsAsked, job_ids=some))
            assert isinstance(answer, JobsListed)
            shown += answer.jobs
            asked = some.index(answer.jobs[-1].id) + 1 if answer.jobs else len(some)
            job_ids = job_ids[asked:]
        return shown

    async def workers(self) -> list[Worker]:
        """Return all workers, and the ids of the jobs that each has."""
        answer = await self._session.ask(Kind.WORKERS, BareRequest)
        assert isinstance(answer, WorkersListed)
        return list(answer.workers)

    async def standing(self) -> Standing:
        """Return counts of jobs by type and status, and what the dispatcher has counted."""
        answer = await self._session.ask(Kind.STATUS, BareRequest)
        assert isinstance(answer, Standing)
        return answer
