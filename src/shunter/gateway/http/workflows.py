"""The routes of workflows: a graph of jobs in one request, and runs as a whole.

Everything that changes a job goes to the dispatcher and is answered after its commit.
Spec: docs/spec/http.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.run_pages import with_edges
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.jobs import job_scope
from shunter.gateway.http.queries import query_of
from shunter.gateway.http.run_orders import RunOrders, no_run
from shunter.model.submission import Receipt
from shunter.net.web.bodies import aside, read_body
from shunter.net.web.refusals import JsonAnswer
from shunter.store.port import JobQuery, Store
from shunter.store.search import RunSearch
from shunter.wire.checked_documents import checked, parsed
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


class WorkflowRoutes:
    """What HTTP clients may do with runs of workflows."""

    def __init__(
        self,
        store: Store,
        orders: RunOrders,
        audit: HttpAudit,
        *,
        new_id: Callable[[], str],
        max_body_bytes: int,
    ) -> None:
        self._store, self._orders, self._audit = store, orders, audit
        self._new_id, self._max_body_bytes = new_id, max_body_bytes

    async def submit(self, request: Request) -> Response:
        """POST: accept a graph as a whole; it is committed before the answer."""
        body = await read_body(request, self._max_body_bytes)
        submissions = await aside(len(body), lambda: graph_of_document(parsed(body), self._new_id))
        receipts = await self._orders.submit(submissions, job_scope(request))
        return await self._stored(submissions[0].run or "", receipts)

    async def browse(self, request: Request) -> Response:
        """GET: a page of runs."""
        asked = query_of(request, RunsQuery)
        wanted = RunSearch(
            namespace=job_scope(request).listed(),
            workflow=asked.workflow,
            after=asked.before,
            limit=asked.limit,
        )
        seen = await self._store.runs(wanted)
        return JsonAnswer(runs_document(seen.runs, seen.next))

    async def show(self, request: Request) -> Response:
        """GET of one run: a page of its jobs."""
        run_id, scope, asked = (
            request.path_params["id"],
            job_scope(request),
            query_of(request, RunQuery),
        )
        query = JobQuery(
            run=run_id, namespace=scope.listed(), before=asked.before, limit=asked.limit + 1
        )
        found = await self._store.find(query)
        if not found and asked.before is None:
            raise no_run(run_id)
        page = await with_edges(self._store, found[: asked.limit])
        is_more = len(found) > len(page.jobs)
        following = page.jobs[-1].id if is_more and page.jobs else None
        return JsonAnswer(run_document(run_id, page.jobs, page.edges, following))

    async def cancel(self, request: Request) -> Response:
        """DELETE: stop all jobs of a run, or those from one on."""
        scope, first = job_scope(request), query_of(request, CancelRunQuery).first
        view = await self._orders.run(request.path_params["id"], scope)
        await self._audit.note(request, "cancel run", view.id)
        return JsonAnswer(
            cancelled_run(view.id, await self._orders.cancel(view, scope, first=first))
        )

    async def rerun(self, request: Request) -> Response:
        """POST: do an ended run again, or all from one job on, as new jobs of the same run."""
        body = await read_body(request, self._max_body_bytes)
        first = checked(parsed(body or b"{}"), RerunRunRequest).first
        scope = job_scope(request)
        view = await self._orders.run(request.path_params["id"], scope)
        await self._audit.note(request, "rerun run", view.id)
        return await self._stored(view.id, await self._orders.rerun(view, scope, first=first))

    async def _stored(self, run_id: str, receipts: Sequence[Receipt]) -> Response:
        """Show jobs as they are stored; those of a graph that was sent again keep its first run."""
        found = await self._store.get([receipt.job_id for receipt in receipts[:1000]])
        page = await with_edges(self._store, [job for job in found if job is not None])
        run_id = next((job.run for job in page.jobs if job.run is not None), run_id)
        return JsonAnswer(
            run_document(run_id, page.jobs, page.edges),
            HTTPStatus.CREATED,
            {"Location": COLLECTION + quote(run_id)},
        )
