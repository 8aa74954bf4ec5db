"""The routes of pauses: hold back, let go on, and look. Spec: docs/spec/http.md."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.pauses import pause, pauses, resume
from shunter.errors import PauseRefused
from shunter.gateway.http.access import key_of
from shunter.gateway.http.audit import HttpAudit
from shunter.model.pause import PauseTarget, key_fault
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, JsonAnswer
from shunter.wire.checked_documents import checked, parsed
from shunter.wire.pause_documents import PauseList, PauseRequest, pause_document

MAX_BODY_BYTES = 4096


class PauseRoutes:
    """What HTTP clients may hold back."""

    def __init__(self, dispatcher: Dispatcher, audit: HttpAudit) -> None:
        self._dispatcher, self._audit = dispatcher, audit

    async def pause(self, request: Request) -> Response:
        """PUT: nothing of it starts here when this is answered, and elsewhere 2 s later."""
        order = checked(parsed(await read_body(request, MAX_BODY_BYTES)), PauseRequest)
        _check_key(request)
        await self._audit.note(request, f"pause {order.target}", order.name)
        key = key_of(request)
        try:
            made = await pause(
                self._dispatcher, order.target, order.name, by="" if key is None else key.name
            )
        except PauseRefused as error:
            raise HttpRefusal(HTTPStatus.CONFLICT, str(error), field="name") from None
        return JsonAnswer(pause_document(made))

    async def resume(self, request: Request) -> Response:
        """DELETE: it starts again."""
        _check_key(request)
        target, _, name = request.path_params["id"].partition(":")
        if target not in list(PauseTarget) or not name:
            raise _not_paused(f"{target}:{name}"[:128])
        await self._audit.note(request, f"resume {target}", name)
        try:
            ended = await resume(self._dispatcher, PauseTarget(target), name)
        except PauseRefused as error:
            raise _not_paused(f"{target}:{name}"[:128], str(error)) from None
        return JsonAnswer(pause_document(ended))

    async def browse(self, request: Request) -> Response:
        """GET of all."""
        found = await pauses(self._dispatcher.store)
        return JsonAnswer(PauseList(pauses=tuple(map(pause_document, found))))


def _check_key(request: Request) -> None:
    """Raise a HttpRefusal if the key is of a namespace: a pause holds for all."""
    if fault := key_fault(key_of(request)):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, fault)


def _not_paused(pause_id: str, reason: str = "") -> HttpRefusal:
    message = reason or f"{pause_id} names no pause; send type:NAME, worker:ID or version:VERSION"
    return HttpRefusal(HTTPStatus.NOT_FOUND, message, field="id")
