"""The routes of workflows: a graph of jobs in one request, and runs as a whole.

Everything that changes a job goes to the dispatcher and is answered after its commit.
Spec: docs/spec/http.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.arrivals import Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.run_reading import read_run, with_edges
from shunter.errors import JobNotFound, JobRefused
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.jobs import job_scope
from shunter.gateway.http.queries import query_of
from shunter.model.document import sealed_data_at
from shunter.model.job import Job
from shunter.model.resubmission import resubmission
from shunter.model.run_view import RunView
from shunter.model.scope import JobScope
from shunter.model.submission import Receipt, Submission
from shunter.net.web.bodies import aside, read_body
from shunter.net.web.refusals import HttpRefusal, JsonAnswer, unavailable
from shunter.store.port import JobQuery
from shunter.store.search import RunSearch
from shunter.wire.checking import checked, parsed
from shunter.wire.workflow_documents import (
    CancelRunQuery,
    RerunRunRequest,
    RunQuery,
    RunsQuery,
    cancelled_run,
    graph_of_document,
    run_document,
    runs_document,
)

COLLECTION = "/dispatcher/workflows/"
CANCELLED_AT_ONCE = 500
READ_AT_ONCE = 100


class WorkflowRoutes:
    """What HTTP clients may do with runs of workflows."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        orders: JobOrders,
        audit: HttpAudit,
        *,
        new_id: Callable[[], str],
        max_body_bytes: int,
    ) -> None:
        self._dispatcher, self._orders, self._audit = dispatcher, orders, audit
        self._new_id, self._max_body_bytes = new_id, max_body_bytes

    async def submit(self, request: Request) -> Response:
        """POST: accept a graph as a whole; it is committed before the answer."""
        body = await read_body(request, self._max_body_bytes)
        wishes = await aside(len(body), lambda: graph_of_document(parsed(body), self._new_id))
        return await self._submitted(wishes, job_scope(request))

    async def browse(self, request: Request) -> Response:
        """GET: a page of runs."""
        wish = query_of(request, RunsQuery)
        wanted = RunSearch(
            namespace=job_scope(request).listed(),
            workflow=wish.workflow,
            after=wish.before,
            limit=wish.limit,
        )
        seen = await self._dispatcher.store.runs(wanted)
        return JsonAnswer(runs_document(seen.runs, seen.next))

    async def show(self, request: Request) -> Response:
        """GET of one run: a page of its jobs."""
        run_id, scope, wish = (
            request.path_params["id"],
            job_scope(request),
            query_of(request, RunQuery),
        )
        store = self._dispatcher.store
        query = JobQuery(
            run=run_id, namespace=scope.listed(), before=wish.before, limit=wish.limit + 1
        )
        found = await store.find(query)
        if not found and wish.before is None:
            raise _no_run(run_id)
        page = await with_edges(store, found[: wish.limit])
        is_more = len(found) > len(page.jobs)
        following = page.jobs[-1].id if is_more and page.jobs else None
        return JsonAnswer(run_document(run_id, page.jobs, page.edges, following))

    async def cancel(self, request: Request) -> Response:
        """DELETE: stop all jobs of a run, or those from one on."""
        scope, first = job_scope(request), query_of(request, CancelRunQuery).first
        view = await self._run(request, scope)
        await self._audit.note(request, "cancel run", view.id)
        still_open = set(view.open_jobs)
        ids = [name for name in _chosen(view, first) if name in still_open]
        receipts: list[Receipt] = []
        for start in range(0, len(ids), CANCELLED_AT_ONCE):
            some = ids[start : start + CANCELLED_AT_ONCE]
            receipts += await self._orders.answered(
                partial(self._ask_to_cancel, some, scope),
                f"run {view.id} may or may not be cancelled; look at it, or ask again",
            )
        return JsonAnswer(cancelled_run(view.id, receipts))

    async def rerun(self, request: Request) -> Response:
        """POST: do an ended run again, or all from one job on, as new jobs of the same run."""
        body = await read_body(request, self._max_body_bytes)
        first = checked(parsed(body or b"{}"), RerunRunRequest).first
        scope = job_scope(request)
        view = await self._run(request, scope)
        await self._audit.note(request, "rerun run", view.id)
        in_full = await self._in_full(_chosen(view, first))
        try:
            wishes = view.rerun(first, lambda job: self._resubmitted(in_full[job.id]))
        except JobRefused as error:
            raise HttpRefusal(HTTPStatus.CONFLICT, str(error), field="first") from None
        return await self._submitted(wishes, scope)

    # ---- shared

    def _ask_to_cancel(
        self, ids: Sequence[str], scope: JobScope, answer: Callable[[list[Receipt]], None]
    ) -> None:
        self._dispatcher.cancel(ids, answer, scope)

    async def _submitted(self, wishes: Sequence[Submission], scope: JobScope) -> Response:
        if self._dispatcher.is_full:
            raise unavailable("too many jobs are waiting to be stored; send it again in a second")
        submitter = Submitter(namespace=scope.namespace, sees_all=scope.sees_all)
        run_id = wishes[0].run or ""
        receipts = await self._orders.answered(
            lambda answer: self._dispatcher.submit(
                wishes, answer, submitter=submitter, is_whole=True
            ),
            f"run {run_id} may or may not be stored; look at it, or send it again under its ids",
        )
        for receipt in sorted(receipts, key=lambda it: it.field == "graph"):
            if receipt.reason:
                is_taken = receipt.field in ("id", "rerun_of")
                status = HTTPStatus.CONFLICT if is_taken else HTTPStatus.UNPROCESSABLE_ENTITY
                raise HttpRefusal(status, receipt.reason, field=receipt.field)
        found = await self._dispatcher.store.get([receipt.job_id for receipt in receipts[:1000]])
        page = await with_edges(self._dispatcher.store, [job for job in found if job is not None])
        return JsonAnswer(
            run_document(run_id, page.jobs, page.edges),
            HTTPStatus.CREATED,
            {"Location": COLLECTION + quote(run_id)},
        )

    async def _run(self, request: Request, scope: JobScope) -> RunView:
        view = await read_run(self._dispatcher.store, request.path_params["id"], scope)
        if not view.jobs:
            raise _no_run(view.id)
        return view

    async def _in_full(self, ids: Sequence[str]) -> dict[str, Job]:
        found: dict[str, Job] = {}
        for start in range(0, len(ids), READ_AT_ONCE):
            some = ids[start : start + READ_AT_ONCE]
            for job in await self._dispatcher.store.get(some, payload=True):
                if job is not None:
                    found[job.id] = job
        return found

    def _resubmitted(self, job: Job) -> Submission:
        if job.payload is not None and sealed_data_at(job.payload) is not None:
            raise JobRefused(
                job.id,
                "payload",
                "it is encrypted for that job alone; rerun the run with Client(codec=...)",
            )
        return resubmission(job, new_id=self._new_id())


def _chosen(view: RunView, first: str | None) -> list[str]:
    try:
        return view.chosen(first)
    except JobNotFound:
        message = f"run {view.id} has no job {first}; name one of its jobs"
        raise HttpRefusal(HTTPStatus.NOT_FOUND, message, field="first") from None


def _no_run(run_id: str) -> HttpRefusal:
    message = f"there is no run {run_id[:128]}, or all its jobs are purged"
    return HttpRefusal(HTTPStatus.NOT_FOUND, message, field="id")
