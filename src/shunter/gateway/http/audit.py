"""What operators did over HTTP: written down before it is done, and shown page by page."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.http.access import key_of
from shunter.gateway.http.queries import query_of
from shunter.model.key import Role
from shunter.net.web.refusals import JsonAnswer
from shunter.store.key_records import AuditEntry, audited, note
from shunter.wire.audit_documents import AuditLine, AuditPage, AuditQuery


class AuditLog:
    """The lines that this dispatcher writes, and all that the store has."""

    def __init__(self, dispatcher: Dispatcher, *, new_id: Callable[[], str]) -> None:
        self._dispatcher, self._new_id = dispatcher, new_id

    async def note(self, request: Request, action: str, target: str) -> None:
        """Write down what an operator is about to do; others act on what is their own.

        It comes first, so that nothing is done of which the store has no line.
        """
        key = key_of(request)
        if key is None or key.role is not Role.OPERATOR:
            return
        peer = request.client.host if request.client else ""
        entry = AuditEntry(
            id=self._new_id(),
            at=self._dispatcher.now(),
            actor=key.name,
            action=action,
            target=target,
            detail=f"over HTTP from {peer}",
        )
        await note(self._dispatcher.store, [entry])

    async def browse(self, request: Request) -> Response:
        """GET: a page, newest first."""
        wish = query_of(request, AuditQuery)
        found = await audited(self._dispatcher.store, before=wish.before, limit=wish.limit + 1)
        entries = found[: wish.limit]
        following = entries[-1].id if len(found) > len(entries) else None
        lines = tuple(msgspec.convert(it, AuditLine, from_attributes=True) for it in entries)
        return JsonAnswer(AuditPage(entries=lines, next=following))
