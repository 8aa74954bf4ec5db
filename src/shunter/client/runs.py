"""Runs of workflows, as a client looks at them, cancels them and does them again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

from shunter.client.handle import AsyncJob
from shunter.client.session import Answer
from shunter.errors import RunNotFound
from shunter.model.job import Job
from shunter.model.run_view import RunSummary, RunView
from shunter.model.submission import Receipt, Submission
from shunter.model.workflow import JobEdge
from shunter.wire.messages import JobsAsked, JobsListed, Kind, Message, RunsAsked, RunsListed

PAGE = 500
Ask = Callable[[Kind, Callable[[int], Message]], Awaitable[Answer]]


class RunsClient(Protocol):
    """What a client offers for runs."""

    async def cancel(self, job_ids: Sequence[str]) -> list[Receipt]: ...

    async def in_full(self, job_ids: list[str]) -> list[Job]: ...

    def rerun_submission(self, job: Job) -> Submission: ...

    async def send_graph(self, submissions: Sequence[Submission]) -> list[AsyncJob[Any]]: ...


class AsyncWorkflowRuns:
    """The runs of workflows that a client may see."""

    def __init__(self, ask: Ask, client: RunsClient) -> None:
        self._ask, self._client = ask, client

    async def show(self, run_id: str) -> RunView:
        """Return a run: its jobs, without payloads and results, and who waits for whom."""
        jobs: list[Job] = []
        edges: list[JobEdge] = []
        before: str | None = None
        while True:
            page = await self._page(run_id, before)
            jobs += page.jobs
            edges += page.edges
            if not page.jobs:
                break
            before = page.jobs[-1].id
        if not jobs:
            raise RunNotFound(run_id)
        return RunView(run_id, reversed(jobs), edges)

    async def waits_for(self, job_id: str) -> list[JobEdge]:
        """Return the edges to one job: what it waits, or has waited, for."""
        answer = await self._ask(Kind.LIST, lambda n: JobsAsked(n, (job_id,)))
        assert isinstance(answer, JobsListed)
        return list(answer.edges)

    async def cancel(self, run_id: str, *, first: str | None = None) -> list[Receipt]:
        """Stop a run, or one of its jobs and all that wait for it; a reason says why one can't."""
        view = await self.show(run_id)
        still_open = set(view.open_jobs)
        ids = [name for name in view.chosen(first) if name in still_open]
        receipts: list[Receipt] = []
        for start in range(0, len(ids), PAGE):
            receipts += await self._client.cancel(ids[start : start + PAGE])
        return receipts

    async def rerun(self, run_id: str, *, first: str | None = None) -> list[AsyncJob[Any]]:
        """Do an ended run again, or all from one of its jobs on, as new jobs of the same run."""
        view = await self.show(run_id)
        in_full = {job.id: job for job in await self._client.in_full(view.chosen(first))}
        submissions = view.rerun(first, lambda job: self._client.rerun_submission(in_full[job.id]))
        return await self._client.send_graph(submissions)

    async def _page(self, run_id: str, before: str | None) -> JobsListed:
        answer = await self._ask(
            Kind.LIST, lambda n: JobsAsked(n, run=run_id, before=before, limit=PAGE, parts=True)
        )
        assert isinstance(answer, JobsListed)
        return answer

    async def list(
        self, *, workflow: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[RunSummary]:
        """Return runs, of all workflows or of one, by falling ids: the newest first.

        `before` is the id of the last one already seen.
        """
        found: list[RunSummary] = []
        after = before
        while len(found) < limit:
            asked = partial(RunsAsked, workflow=workflow, after=after, limit=min(limit, PAGE))
            answer = await self._ask(Kind.RUNS, asked)
            assert isinstance(answer, RunsListed)
            found += answer.runs
            if (after := answer.next) is None:
                break
        return found[:limit]


class WorkflowRuns:
    """The runs of workflows, for a client that is synchronous."""

    def __init__(
        self,
        inner: AsyncWorkflowRuns,
        do: Callable[[Coroutine[Any, Any, Any]], Any],
        handle: Callable[[AsyncJob[Any]], Any],
    ) -> None:
        self._inner, self._do, self._handle = inner, do, handle

    def show(self, run_id: str) -> RunView:
        """Return a run: its jobs, without payloads and results, and who waits for whom."""
        view: RunView = self._do(self._inner.show(run_id))
        return view

    def waits_for(self, job_id: str) -> list[JobEdge]:
        """Return the edges to one job: what it waits, or has waited, for."""
        edges: list[JobEdge] = self._do(self._inner.waits_for(job_id))
        return edges

    def cancel(self, run_id: str, *, first: str | None = None) -> list[Receipt]:
        """Stop a run, or one of its jobs and all that wait for it; a reason says why one can't."""
        receipts: list[Receipt] = self._do(self._inner.cancel(run_id, first=first))
        return receipts

    def rerun(self, run_id: str, *, first: str | None = None) -> list[Any]:
        """Do an ended run again, or all from one of its jobs on, as new jobs of the same run."""
        return [self._handle(it) for it in self._do(self._inner.rerun(run_id, first=first))]

    def list(
        self, *, workflow: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[RunSummary]:
        """Return runs, of all workflows or of one, by falling ids: the newest first.

        `before` is the id of the last one already seen.
        """
        asked = self._inner.list(workflow=workflow, before=before, limit=limit)
        runs: list[RunSummary] = self._do(asked)
        return runs
