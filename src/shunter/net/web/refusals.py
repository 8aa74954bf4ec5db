"""What an error looks like: `{"error": {"code", "message", "field"}}`, and which status it has."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from shunter.errors import (
    InvalidTransition,
    JobError,
    JobFinal,
    JobNotFound,
    LeaseLost,
    ShunterError,
    StaleAttempt,
)
from shunter.wire.checked_documents import NotJson
from shunter.wire.tagged_values import BadDocument

CODES = {
    HTTPStatus.BAD_REQUEST: "malformed",
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.REQUEST_TIMEOUT: "too_slow",
    HTTPStatus.CONFLICT: "conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "unsupported_media_type",
    HTTPStatus.MISDIRECTED_REQUEST: "misdirected",
    HTTPStatus.UNPROCESSABLE_ENTITY: "invalid",
    HTTPStatus.INTERNAL_SERVER_ERROR: "internal",
    HTTPStatus.SERVICE_UNAVAILABLE: "unavailable",
}
"""The code of each status; a conflict may have a more telling one."""

CONFLICTS: dict[type[JobError], str] = {
    JobFinal: "job_final",
    StaleAttempt: "stale_attempt",
    LeaseLost: "held_by_another",
    InvalidTransition: "not_in_progress",
}


class ErrorDetail(Struct, frozen=True):
    """A word for programs, a sentence for people, and the dotted path of the field at fault."""

    code: str
    message: str
    field: str | None = None


class ErrorDocument(Struct, frozen=True):
    """What every answer that is no success carries."""

    error: ErrorDetail


class HttpRefusal(ShunterError):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        field: str | None = None,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = HTTPStatus(status), dict(headers or {})
        self.detail = ErrorDetail(code or CODES[self.status], message, field)


def not_found(job_id: str) -> HttpRefusal:
    """Say that nobody knows the job."""
    return HttpRefusal(HTTPStatus.NOT_FOUND, str(JobNotFound(job_id[:128])), field="id")


def unavailable(message: str) -> HttpRefusal:
    """Ask the client to come again."""
    return HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, headers={"Retry-After": "1"})


def refusal_of(error: BadDocument | JobError) -> HttpRefusal:
    """Say in HTTP what is wrong with a document, or with a report on a job."""
    match error:
        case NotJson():
            return HttpRefusal(HTTPStatus.BAD_REQUEST, error.message)
        case BadDocument():
            return HttpRefusal(
                HTTPStatus.UNPROCESSABLE_ENTITY, error.message, field=error.field or None
            )
        case JobNotFound():
            return not_found(error.job_id)
    code = next((code for kind, code in CONFLICTS.items() if isinstance(error, kind)), "")
    field = {"stale_attempt": "attempt", "held_by_another": "worker_id"}.get(code, "status")
    return HttpRefusal(HTTPStatus.CONFLICT, str(error), field=field, code=code)


class JsonAnswer(Response):
    """Any value that msgspec can write, as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else msgspec.json.encode(content)


def error_answer(refusal: HttpRefusal) -> JsonAnswer:
    """Write a refusal."""
    return JsonAnswer(ErrorDocument(refusal.detail), refusal.status, refusal.headers)
