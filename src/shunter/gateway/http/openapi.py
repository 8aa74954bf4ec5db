"""All that is served over HTTP, in one table: routes and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from shunter.gateway.http.access import ACCESS
from shunter.model.explanation import Explanation
from shunter.net.web.refusals import ErrorDocument
from shunter.wire.audit_documents import AuditPage, AuditQuery
from shunter.wire.documents import (
    JobDocument,
    JobPage,
    JobRequest,
    JobsQuery,
    LogRequest,
    RerunRequest,
    ResultRequest,
    SignalRequest,
)
from shunter.wire.limit_documents import LimitsDocument, LimitsList, LimitsRequest
from shunter.wire.pause_documents import PauseDocument, PauseList, PauseRequest
from shunter.wire.schedule_documents import (
    BackfillRequest,
    MadeJobs,
    ScheduleDocument,
    ScheduleList,
    ScheduleQuery,
    ScheduleRequest,
    SchedulesQuery,
    TriggerQuery,
)
from shunter.wire.worker_documents import (
    RegisteredWorker,
    WorkerDocument,
    WorkerList,
    WorkerRequest,
)
from shunter.wire.workflow_documents import (
    CancelledRun,
    CancelRunQuery,
    RerunRunRequest,
    RunDocument,
    RunQuery,
    RunsDocument,
    RunsQuery,
    WorkflowRequest,
)

TITLE = "Shunter"
TEXT = "text/plain"
EVENT_STREAM = "text/event-stream"
JSON = "application/json"
NOTHING = ""


class Readiness(Struct, frozen=True, omit_defaults=True):
    """Whether the dispatcher serves; `reason` says why it can't store jobs."""

    ready: bool
    reason: str = ""


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path. `needs_ready` says that it is refused while nobody serves."""

    id: str
    method: str
    path: str
    summary: str
    answers: dict[int, type[Struct] | str]
    refusals: tuple[int, ...] = ()
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    needs_ready: bool = False


_CHANGING = (400, 408, 413, 415, 422)

OPERATIONS = (
    Operation(
        id="submit",
        method="POST",
        path="/dispatcher/jobs/",
        summary="Submit a job: 201 if it is new, 200 if an equal one is there under its id or key.",
        body=JobRequest,
        answers={200: JobDocument, 201: JobDocument},
        refusals=(*_CHANGING, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="browse",
        method="GET",
        path="/dispatcher/jobs/",
        summary="List jobs, newest first.",
        query=JobsQuery,
        answers={200: JobPage},
        refusals=(422, 503),
        needs_ready=True,
    ),
    Operation(
        id="report",
        method="POST",
        path="/dispatcher/jobs/{id}/result",
        summary="Report how a run ended.",
        body=ResultRequest,
        answers={200: JobDocument},
        refusals=(*_CHANGING, 404, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="tell_log",
        method="POST",
        path="/dispatcher/jobs/{id}/log",
        summary="Tell the last that a run has printed, which goes on; its next one replaces it.",
        body=LogRequest,
        answers={204: NOTHING},
        refusals=(*_CHANGING, 404, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="follow_log",
        method="GET",
        path="/dispatcher/jobs/{id}/log",
        summary="The log of a job as it grows, as server-sent events: log, restart, end.",
        answers={200: EVENT_STREAM},
        refusals=(404, 503),
        needs_ready=True,
    ),
    Operation(
        id="rerun",
        method="POST",
        path="/dispatcher/jobs/{id}/rerun",
        summary="Do an ended job again: 201 if the new job is new, 200 if it is there by its id.",
        body=RerunRequest,
        answers={200: JobDocument, 201: JobDocument},
        refusals=(*_CHANGING, 404, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="signal",
        method="POST",
        path="/dispatcher/jobs/{id}/signals/{name}",
        summary="Send a job a signal; of those with one id the first counts.",
        body=SignalRequest,
        answers={200: JobDocument},
        refusals=(*_CHANGING, 404, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="why",
        method="GET",
        path="/dispatcher/jobs/{id}/why",
        summary="Why a job does not run, who runs it, or where the time of an ended one went.",
        answers={200: Explanation},
        refusals=(404, 503),
        needs_ready=True,
    ),
    Operation(
        id="stream",
        method="GET",
        path="/dispatcher/jobs/{id}/stream",
        summary="What a job emits, from the start, as server-sent events: chunk, restart, end.",
        answers={200: EVENT_STREAM},
        refusals=(404, 503),
        needs_ready=True,
    ),
    Operation(
        id="show",
        method="GET",
        path="/dispatcher/jobs/{id}",
        summary="Show a job.",
        answers={200: JobDocument},
        refusals=(404, 503),
        needs_ready=True,
    ),
    Operation(
        id="cancel",
        method="DELETE",
        path="/dispatcher/jobs/{id}",
        summary="Cancel a job: 200 if it is cancelled, 202 if its worker has yet to stop it.",
        answers={200: JobDocument, 202: JobDocument},
        refusals=(404, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="submit_workflow",
        method="POST",
        path="/dispatcher/workflows/",
        summary="Submit jobs that wait for jobs: all of them are stored, or none.",
        body=WorkflowRequest,
        answers={201: RunDocument},
        refusals=(*_CHANGING, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="browse_runs",
        method="GET",
        path="/dispatcher/workflows/",
        summary="List runs of workflows, newest first, with how their jobs stand.",
        query=RunsQuery,
        answers={200: RunsDocument},
        refusals=(422, 503),
        needs_ready=True,
    ),
    Operation(
        id="show_run",
        method="GET",
        path="/dispatcher/workflows/{id}",
        summary="Show a run of a workflow: its jobs, newest first, and what they wait for.",
        query=RunQuery,
        answers={200: RunDocument},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="cancel_run",
        method="DELETE",
        path="/dispatcher/workflows/{id}",
        summary="Cancel the jobs of a run that have not ended, or those from one on.",
        query=CancelRunQuery,
        answers={200: CancelledRun},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="rerun_run",
        method="POST",
        path="/dispatcher/workflows/{id}/rerun",
        summary="Do an ended run again, or all from one job on, as new jobs of the same run.",
        body=RerunRunRequest,
        answers={201: RunDocument},
        refusals=(*_CHANGING, 404, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="register",
        method="PUT",
        path="/dispatcher/workers/",
        summary="Register an HTTP worker, or register it again: its id is made from its address.",
        body=WorkerRequest,
        answers={201: RegisteredWorker},
        refusals=(*_CHANGING, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="list_workers",
        method="GET",
        path="/dispatcher/workers/",
        summary="List all workers.",
        answers={200: WorkerList},
        refusals=(503,),
        needs_ready=True,
    ),
    Operation(
        id="show_worker",
        method="GET",
        path="/dispatcher/workers/{id}",
        summary="Show a worker.",
        answers={200: WorkerDocument},
        refusals=(404, 503),
        needs_ready=True,
    ),
    Operation(
        id="resign",
        method="DELETE",
        path="/dispatcher/workers/{id}",
        summary="Resign an HTTP worker; its jobs go back to the queue.",
        answers={200: WorkerDocument},
        refusals=(404, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="list_pauses",
        method="GET",
        path="/dispatcher/pauses/",
        summary="List what is held back.",
        answers={200: PauseList},
        refusals=(503,),
        needs_ready=True,
    ),
    Operation(
        id="pause",
        method="PUT",
        path="/dispatcher/pauses/",
        summary="Start no more jobs of a type, or give nothing new to a worker or a version.",
        body=PauseRequest,
        answers={200: PauseDocument},
        refusals=(*_CHANGING, 409, 503),
        needs_ready=True,
    ),
    Operation(
        id="resume",
        method="DELETE",
        path="/dispatcher/pauses/{id}",
        summary="End a pause: type:NAME, worker:ID or version:VERSION.",
        answers={200: PauseDocument},
        refusals=(404, 503),
        needs_ready=True,
    ),
    Operation(
        id="list_limits",
        method="GET",
        path="/dispatcher/limits/",
        summary="List the types that are or were limited, and who holds what.",
        answers={200: LimitsList},
        refusals=(503,),
        needs_ready=True,
    ),
    Operation(
        id="show_limits",
        method="GET",
        path="/dispatcher/limits/{id}",
        summary="Show the limits of a type, and who holds what.",
        answers={200: LimitsDocument},
        refusals=(404, 503),
        needs_ready=True,
    ),
    Operation(
        id="put_limits",
        method="PUT",
        path="/dispatcher/limits/{id}",
        summary="Limit a type, whatever its app declares; also while its jobs run.",
        body=LimitsRequest,
        answers={200: LimitsDocument},
        refusals=(*_CHANGING, 404, 503),
        needs_ready=True,
    ),
    Operation(
        id="take_back_limits",
        method="DELETE",
        path="/dispatcher/limits/{id}",
        summary="Let the limits count again that the type's app declares.",
        answers={200: LimitsDocument},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="list_schedules",
        method="GET",
        path="/dispatcher/schedules/",
        summary="List schedules, by falling names.",
        query=SchedulesQuery,
        answers={200: ScheduleList},
        refusals=(422, 503),
        needs_ready=True,
    ),
    Operation(
        id="pause_schedule",
        method="POST",
        path="/dispatcher/schedules/{id}/pause",
        summary="Pause a schedule: no more jobs are made.",
        query=ScheduleQuery,
        answers={200: ScheduleDocument},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="resume_schedule",
        method="POST",
        path="/dispatcher/schedules/{id}/resume",
        summary="Let a schedule go on with its next tick.",
        query=ScheduleQuery,
        answers={200: ScheduleDocument},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="trigger_schedule",
        method="POST",
        path="/dispatcher/schedules/{id}/trigger",
        summary="Make a job of a schedule now.",
        query=TriggerQuery,
        answers={201: MadeJobs},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="backfill_schedule",
        method="POST",
        path="/dispatcher/schedules/{id}/backfill",
        summary="Make the jobs of past ticks that are not there.",
        query=ScheduleQuery,
        body=BackfillRequest,
        answers={201: MadeJobs},
        refusals=(*_CHANGING, 404, 503),
        needs_ready=True,
    ),
    Operation(
        id="show_schedule",
        method="GET",
        path="/dispatcher/schedules/{id}",
        summary="Show a schedule.",
        query=ScheduleQuery,
        answers={200: ScheduleDocument},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="put_schedule",
        method="PUT",
        path="/dispatcher/schedules/{id}",
        summary="Make or change a schedule.",
        query=ScheduleQuery,
        body=ScheduleRequest,
        answers={200: ScheduleDocument},
        refusals=(*_CHANGING, 404, 503),
        needs_ready=True,
    ),
    Operation(
        id="remove_schedule",
        method="DELETE",
        path="/dispatcher/schedules/{id}",
        summary="Remove a schedule; jobs that it has made go on.",
        query=ScheduleQuery,
        answers={200: ScheduleDocument},
        refusals=(404, 422, 503),
        needs_ready=True,
    ),
    Operation(
        id="audit",
        method="GET",
        path="/dispatcher/audit/",
        summary="List what operators did, newest first.",
        query=AuditQuery,
        answers={200: AuditPage},
        refusals=(422, 503),
        needs_ready=True,
    ),
    Operation(
        id="healthz",
        method="GET",
        path="/healthz",
        summary="Whether every gateway listens.",
        answers={200: Readiness, 503: Readiness},
    ),
    Operation(
        id="readyz",
        method="GET",
        path="/readyz",
        summary="Whether jobs can be served: every gateway listens and the store answers.",
        answers={200: Readiness},
        refusals=(503,),
    ),
    Operation(
        id="metrics",
        method="GET",
        path="/metrics",
        summary="Counts for Prometheus.",
        answers={200: TEXT},
        refusals=(503,),
    ),
    Operation(
        id="openapi",
        method="GET",
        path="/openapi.json",
        summary="This document.",
        answers={200: JSON},
    ),
)

PATH_ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id of the job, worker or pause, the name of the schedule, or the type of "
    "jobs; a slash in it may be written as %2F.",
    "schema": {"type": "string", "minLength": 1},
}


PATH_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The name of the signal, as the handler waits for it.",
    "schema": {"type": "string", "minLength": 1},
}

BEARER = "bearer"
_UNLOCKED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def openapi_document(version: str, *, has_keys: bool = False) -> dict[str, Any]:
    """Describe what is served, as OpenAPI 3.1; with keys, what they open as well."""
    structs = {ErrorDocument, *_structs()}
    _, schemas = msgspec.json.schema_components(
        sorted(structs, key=lambda struct: struct.__name__),
        ref_template="#/components/schemas/{name}",
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(
            operation, is_locked=has_keys and ACCESS[operation.id] is not None
        )
    components: dict[str, Any] = {"schemas": _portable(schemas)}
    if has_keys:
        described = "The token of a key file, from `shunter key new`."
        components["securitySchemes"] = {
            BEARER: {"type": "http", "scheme": "bearer", "description": described}
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": version, "description": "Spec: docs/spec/http.md"},
        "paths": _portable(paths),
        "components": components,
    }


def _structs() -> Iterator[type[Struct]]:
    for operation in OPERATIONS:
        yield from (answer for answer in operation.answers.values() if not isinstance(answer, str))
        if operation.body is not None:
            yield operation.body


def _described(operation: Operation, *, is_locked: bool) -> dict[str, Any]:
    refusals = {*operation.refusals, *(_UNLOCKED if is_locked else ())}
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": {
            str(status): _answer(status, content)
            for status, content in (
                *operation.answers.items(),
                *((status, ErrorDocument) for status in sorted(refusals)),
            )
        },
    }
    if is_locked:
        opening = " or ".join(ACCESS[operation.id] or ())
        described["security"] = [{BEARER: []}]
        described["description"] = f"The key must be of a role that may: {opening}."
    named = [it for it in (PATH_ID, PATH_NAME) if f"{{{it['name']}}}" in operation.path]
    if parameters := [*named, *_query(operation.query)]:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json(operation.body)}
    return described


def _answer(status: int, content: type[Struct] | str) -> dict[str, Any]:
    match content:
        case "":
            return {"description": HTTPStatus(status).phrase}
        case str() if content in (TEXT, EVENT_STREAM):
            media = {content: {"schema": {"type": "string"}}}
        case str():
            media = {JSON: {"schema": {"type": "object"}}}
        case _:
            media = _json(content)
    return {"description": HTTPStatus(status).phrase, "content": media}


def _json(content: type[Struct]) -> dict[str, Any]:
    return {JSON: {"schema": {"$ref": f"#/components/schemas/{content.__name__}"}}}


def _query(query: type[Struct] | None) -> Iterator[dict[str, Any]]:
    """Describe each field as a parameter; one that is not sent is left out, so never null."""
    if query is None:
        return
    for name, hint in get_type_hints(query, include_extras=True).items():
        schema = msgspec.json.schema(hint)
        yield {"name": name, "in": "query", "schema": schema.get("anyOf", [schema])[0]}


def _portable(value: Any) -> Any:
    r"""Write the end of a pattern as JSON Schema has it: `$`, where Python says `\Z`."""
    if isinstance(value, dict):
        return {
            key: inner.replace(r"\Z", "$") if key == "pattern" and isinstance(inner, str)
            else _portable(inner)
            for key, inner in value.items()
        }  # fmt: skip
    return [_portable(inner) for inner in value] if isinstance(value, list) else value
