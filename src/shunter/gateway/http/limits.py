"""The routes of limits: look, put, and go back to what is declared. Spec: docs/spec/http.md."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.limit_changes import LIMITS_HOLD, put_limits, shown_limits
from shunter.errors import LimitsRefused
from shunter.gateway.http.access import key_of
from shunter.gateway.http.audit import HttpAudit
from shunter.model.job_limits import JobLimits
from shunter.model.pause import key_fault
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, JsonAnswer
from shunter.wire.checked_documents import checked, parsed
from shunter.wire.limit_documents import LimitsList, LimitsRequest, limits_document

MAX_BODY_BYTES = 4096


class LimitRoutes:
    """What HTTP clients may do with limits."""

    def __init__(self, dispatcher: Dispatcher, audit: HttpAudit) -> None:
        self._store, self._audit = dispatcher.store, audit

    async def browse(self, request: Request) -> Response:
        """GET of all."""
        found = sorted(await shown_limits(self._store), key=lambda it: it.type)
        return JsonAnswer(LimitsList(types=tuple(map(limits_document, found))))

    async def show(self, request: Request) -> Response:
        """GET of one type."""
        job_type = request.path_params["id"]
        for shown in await shown_limits(self._store):
            if shown.type == job_type:
                return JsonAnswer(limits_document(shown))
        message = f"{job_type[:128]} was never limited; PUT limits for it, or declare them"
        raise HttpRefusal(HTTPStatus.NOT_FOUND, message, field="id")

    async def put(self, request: Request) -> Response:
        """PUT: these limits count, whatever was declared or changed before."""
        body = await read_body(request, MAX_BODY_BYTES)
        wanted = checked(parsed(body), LimitsRequest)
        return await self._changed(request, "put limits", wanted.limits())

    async def take_back(self, request: Request) -> Response:
        """DELETE: what is declared counts again."""
        return await self._changed(request, "take back limits", None)

    async def _changed(self, request: Request, action: str, wanted: JobLimits | None) -> Response:
        job_type = request.path_params["id"]
        _check_key(request)
        if not job_type:
            allow = {"Allow": "GET, HEAD"}
            message = "the limits of all types at once can't be changed; name one"
            raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, message, headers=allow)
        await self._audit.note(request, action, job_type[:128])
        try:
            return JsonAnswer(limits_document(await put_limits(self._store, job_type, wanted)))
        except LimitsRefused as error:
            if error.field == "type":  # a name that no type can have is that of none
                raise HttpRefusal(HTTPStatus.NOT_FOUND, error.reason, field="id") from None
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            raise HttpRefusal(status, error.reason, field=error.field) from None


def _check_key(request: Request) -> None:
    """Raise a HttpRefusal if the key is of a namespace: limits hold for all."""
    if fault := key_fault(key_of(request), LIMITS_HOLD):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, fault)
