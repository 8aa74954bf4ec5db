"""What `[http]` serves: the operations of the table, and one form for all errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from shunter.dispatch.declarations import Declarations
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.gateway.audit_log import AuditLog
from shunter.gateway.committed_jobs import submit_and_wait
from shunter.gateway.http.access import AccessControl
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.jobs import JobRoutes
from shunter.gateway.http.limits import LimitRoutes
from shunter.gateway.http.logs import LogRoutes
from shunter.gateway.http.openapi import OPERATIONS, Operation, openapi_document
from shunter.gateway.http.page_port import (
    ALL_ALLOWED,
    PageMount,
    PageOptions,
    PagePorts,
    PageRoutes,
)
from shunter.gateway.http.pauses import PauseRoutes
from shunter.gateway.http.probes import Probes
from shunter.gateway.http.run_orders import RunOrders
from shunter.gateway.http.schedules import ScheduleRoutes
from shunter.gateway.http.signals import SignalRoutes
from shunter.gateway.http.worker_calls import HttpWorkers
from shunter.gateway.http.workers import WorkerRoutes
from shunter.gateway.http.workflows import WorkflowRoutes
from shunter.gateway.key_list import KeyList
from shunter.model.allowed_hosts import AllowedHosts
from shunter.model.run_secrets import RunSecrets
from shunter.net.web.application import Handler, application, max_body_bytes
from shunter.net.web.guard import RequestGuard
from shunter.net.web.refusals import HttpRefusal, JsonAnswer
from shunter.refusal_log import RefusalLog

FOR_PROGRAMS = "/dispatcher/"
"""What is below this path is for programs, whatever they accept."""


def http_app(
    dispatcher: Dispatcher,
    http_workers: HttpWorkers,
    refusals: RefusalLog,
    *,
    run_secrets: RunSecrets,
    is_ready: Callable[[], bool],
    new_id: Callable[[], str],
    hosts: AllowedHosts,
    keys: KeyList,
    declarations: Declarations,
    page: PageMount | None = None,
    page_options: PageOptions = ALL_ALLOWED,
) -> ASGIApp:
    """Build the application, for whoever knows this server as one of these `hosts`."""
    limit = max_body_bytes(dispatcher.rules.intake.max_payload_bytes)
    access = AccessControl(keys)
    audit = HttpAudit(AuditLog(dispatcher, new_id=new_id), dispatcher.store)
    orders = JobOrders(dispatcher)
    jobs = JobRoutes(
        dispatcher, orders, audit, run_secrets=run_secrets, new_id=new_id, max_body_bytes=limit
    )
    workers = WorkerRoutes(
        dispatcher, http_workers, access, audit, declarations, max_body_bytes=limit
    )
    book = ScheduleBook(dispatcher, new_id=new_id, submit=partial(submit_and_wait, dispatcher))
    schedules = ScheduleRoutes(dispatcher, book, audit, max_body_bytes=limit)
    signals = SignalRoutes(dispatcher, orders, jobs, audit, new_id=new_id)
    logs = LogRoutes(dispatcher, orders, run_secrets)
    held_back = PauseRoutes(dispatcher, audit)
    limits = LimitRoutes(dispatcher, audit)
    runs = RunOrders(dispatcher, orders, new_id=new_id)
    workflows = WorkflowRoutes(dispatcher.store, runs, audit, new_id=new_id, max_body_bytes=limit)
    probes = Probes(dispatcher, is_ready)

    @cache
    def description() -> bytes:
        """Made for whoever asks first: it takes as long as all the rest of a start."""
        return msgspec.json.encode(openapi_document(version("shunter"), has_keys=keys.is_on))

    async def openapi(request: Request) -> Response:
        return JsonAnswer(description())

    handlers: dict[str, Handler] = {
        "submit": jobs.submit,
        "browse": jobs.browse,
        "report": jobs.report,
        "show": jobs.show,
        "why": jobs.why,
        "cancel": jobs.cancel,
        "rerun": jobs.rerun,
        "signal": signals.signal,
        "stream": signals.stream,
        "follow_log": logs.follow,
        "tell_log": logs.take,
        "submit_workflow": workflows.submit,
        "browse_runs": workflows.browse,
        "show_run": workflows.show,
        "cancel_run": workflows.cancel,
        "rerun_run": workflows.rerun,
        "register": workers.register,
        "list_workers": workers.browse,
        "show_worker": workers.show,
        "resign": workers.resign,
        "list_pauses": held_back.browse,
        "pause": held_back.pause,
        "resume": held_back.resume,
        "list_limits": limits.browse,
        "show_limits": limits.show,
        "put_limits": limits.put,
        "take_back_limits": limits.take_back,
        "list_schedules": schedules.browse,
        "show_schedule": schedules.show,
        "put_schedule": schedules.put,
        "remove_schedule": schedules.remove,
        "pause_schedule": schedules.pause,
        "resume_schedule": schedules.resume,
        "trigger_schedule": schedules.trigger,
        "backfill_schedule": schedules.backfill,
        "audit": audit.browse,
        "healthz": probes.healthz,
        "readyz": probes.readyz,
        "metrics": probes.metrics,
        "openapi": openapi,
    }

    def guarded(operation: Operation) -> Handler:
        handler = handlers[operation.id]

        async def handle(request: Request) -> Response:
            access.admit(operation.id, request)
            if operation.needs_ready:
                probes.check_ready()
            return await handler(request)

        return handle

    def refused(peer: str, refusal: HttpRefusal) -> None:
        refusals.note(peer, f"http_{refusal.detail.code}", refusal.detail.message)

    methods: dict[str, dict[str, Handler]] = {}
    for operation in OPERATIONS:
        methods.setdefault(operation.path, {})[operation.method] = guarded(operation)
    pages: PageRoutes | None = None
    if page is not None:
        pages = page(
            PagePorts(
                dispatcher=dispatcher,
                orders=orders,
                runs=runs,
                book=book,
                audit=audit,
                keys=keys,
                new_id=new_id,
                is_ready=is_ready,
                options=page_options,
            )
        )
        methods.update({path: dict(by_method) for path, by_method in pages.methods.items()})

    async def lost(request: Request) -> Response | None:
        is_person = "text/html" in request.headers.get("accept", "")
        if pages is None or not is_person or request.url.path.startswith(FOR_PROGRAMS):
            return None
        return await pages.lost(request)

    served = application(
        methods, on_refused=refused, directory="/openapi.json lists what is", lost=lost
    )
    return RequestGuard(served, hosts, refused, linked=tuple(pages.methods) if pages else ())
