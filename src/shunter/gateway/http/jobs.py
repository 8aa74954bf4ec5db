"""The jobs' routes: read the request, ask the dispatcher or the store, write the document.

Everything that changes a job goes to the dispatcher and is answered after its commit.
Spec: docs/spec/http.md.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import JobError, JobRefused
from shunter.gateway.http import reports
from shunter.gateway.http.access import key_of
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.job_reader import journal_before
from shunter.gateway.http.queries import query_of
from shunter.model.identity import is_name
from shunter.model.job import Job
from shunter.model.job_log import is_log_told, log_so_far, told_of
from shunter.model.journal import EntryKind
from shunter.model.limits import is_traceparent
from shunter.model.report import Report
from shunter.model.run_secrets import RunSecrets
from shunter.model.scope import JobScope, scope_of
from shunter.model.submission import Submission
from shunter.net.web.bodies import aside, read_body
from shunter.net.web.refusals import (
    HttpRefusal,
    JsonAnswer,
    not_found,
    refusal_of,
)
from shunter.store.port import JobQuery
from shunter.why.store_reads import why
from shunter.wire.checked_documents import parsed
from shunter.wire.documents import (
    JobPage,
    JobsQuery,
    job_document,
    report_of,
    rerun_from,
    rerun_of,
    status_named,
    submission_of,
)

COLLECTION = "/dispatcher/jobs/"


class JobRoutes:
    """What HTTP clients may do with jobs."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        orders: JobOrders,
        audit: HttpAudit,
        *,
        run_secrets: RunSecrets,
        new_id: Callable[[], str],
        max_body_bytes: int,
    ) -> None:
        self._dispatcher, self._orders = dispatcher, orders
        self._audit = audit
        self._run_secrets = run_secrets
        self._new_id = new_id
        self._max_body_bytes = max_body_bytes

    async def submit(self, request: Request) -> Response:
        """POST: accept a job; it is committed before the answer."""
        body = await read_body(request, self._max_body_bytes)
        new_id = self._new_id()
        submission = await aside(len(body), lambda: submission_of(parsed(body), new_id=new_id))
        header = request.headers.get("traceparent", "")
        if submission.traceparent is None and is_traceparent(header):
            submission = replace(submission, traceparent=header)
        return await self._submitted(submission, job_scope(request))

    async def rerun(self, request: Request) -> Response:
        """POST: do an ended job again, as a new one; it is committed before the answer."""
        body = await read_body(request, self._max_body_bytes)
        scope, new_id = job_scope(request), self._new_id()
        job = await self._orders.job(_job_id(request), scope)
        submission = await aside(len(body), lambda: rerun_of(parsed(body), job, new_id=new_id))
        if (step := rerun_from(parsed(body))) is not None:
            store = self._dispatcher.store
            try:
                journal = await journal_before(store, job.id, step)
            except JobRefused as error:
                raise HttpRefusal(
                    HTTPStatus.UNPROCESSABLE_ENTITY, str(error), field="from_step"
                ) from None
            submission = replace(submission, journal=journal)
        await self._audit.note(request, "rerun job", job.id)
        return await self._submitted(submission, scope)

    async def _submitted(self, submission: Submission, scope: JobScope) -> Response:
        found = await self._orders.submit(submission, scope)
        return await self.written(
            found.job,
            HTTPStatus.CREATED if found.is_new else HTTPStatus.OK,
            {"Location": COLLECTION + quote(found.job.id)},
        )

    async def browse(self, request: Request) -> Response:
        """GET of all: some jobs, newest first."""
        asked, scope = query_of(request, JobsQuery), job_scope(request)
        query = JobQuery(
            status=None if asked.status is None else status_named(asked.status),
            type=asked.type,
            worker_id=asked.worker_id,
            namespace=scope.listed(asked.namespace),
            before=asked.before,
            limit=asked.limit + 1,
        )
        is_seen = scope.covers(asked.namespace)
        found = await self._dispatcher.store.find(query) if is_seen else []
        jobs = found[: asked.limit]
        following = jobs[-1].id if len(found) > len(jobs) else None
        documents = tuple(job_document(job, in_full=False) for job in jobs)
        return JsonAnswer(JobPage(jobs=documents, next=following))

    async def show(self, request: Request) -> Response:
        """GET of one."""
        job = await self._orders.job(_job_id(request), job_scope(request))
        if is_log_told(job):
            page = await self._dispatcher.store.journal(job.id, EntryKind.LOG)
            job = replace(job, log=log_so_far(job, told_of(page.entries, job.attempt)))
        return await self.written(job)

    async def why(self, request: Request) -> Response:
        """GET of why one does not run."""
        job_id, dispatcher = _job_id(request), self._dispatcher
        scope, now = job_scope(request), dispatcher.now()
        said = await why(dispatcher.store, job_id, now=now, scope=scope)
        if said is None:
            raise not_found(job_id)
        return JsonAnswer(said)

    async def cancel(self, request: Request) -> Response:
        """DELETE: stop the job, or begin to."""
        job_id, scope = _job_id(request), job_scope(request)
        await self._audit.note(request, "cancel job", job_id)
        job = await self._orders.cancel(job_id, scope)
        is_over = job.status.is_final
        return await self.written(job, HTTPStatus.OK if is_over else HTTPStatus.ACCEPTED)

    async def report(self, request: Request) -> Response:
        """POST of a result: 200 once it is committed as this run's."""
        job_id = _job_id(request)
        body = await read_body(request, self._max_body_bytes)
        came = await aside(len(body), lambda: report_of(parsed(body), job_id=job_id))
        worker_id, report = came.worker_id, came.report
        self._orders.check_size("result", report.result or b"")
        try:
            job = await self._orders.job(job_id)
            self._run_secrets.check(job_id, report.attempt, came.secret)
            reports.check(job, worker_id, report)
            job = await self._reported(worker_id, report)
            reports.check_outcome(job, worker_id, report)
        except JobError as error:
            self._dispatcher.counters["reports_refused"] += 1
            raise refusal_of(error) from None
        return await self.written(job)

    async def _reported(self, worker_id: str, report: Report) -> Job:
        """Pass a report on, and return the job once the run is no longer going on.

        A submission of nothing is answered after the commit of the turn that it came with. A
        report that met another write is decided again in the next turn, hence the loop.
        """
        self._dispatcher.report(worker_id, [report])
        while True:
            await self._orders.answered(
                lambda answer: self._dispatcher.submit([], answer),
                f"job {report.job_id} may or may not have the result; look at it, or ask again",
            )
            job = await self._orders.job(report.job_id)
            if not reports.is_going_on(job, worker_id, report):
                return job

    # ---- shared

    async def written(
        self, job: Job, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None
    ) -> Response:
        """Answer with a job's document."""
        size = len(job.payload or b"") + len(job.result or b"")
        text = await aside(size, lambda: msgspec.json.encode(job_document(job)))
        return JsonAnswer(text, status, headers)


def job_scope(request: Request) -> JobScope:
    """Return what the caller submits and sees: all, where nobody is asked for a key."""
    return scope_of(key_of(request))


def _job_id(request: Request) -> str:
    job_id: str = request.path_params["id"]
    if not job_id:
        allow = {"Allow": "GET, HEAD, POST"}
        message = "all jobs at once can't be changed; name one"
        raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, message, headers=allow)
    if not is_name(job_id):
        raise not_found(job_id)
    return job_id
