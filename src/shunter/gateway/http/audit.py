"""The audit log over HTTP: what operators do is noted, and all of it shown page by page."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from shunter.gateway.audit_log import AuditLog
from shunter.gateway.http.access import key_of
from shunter.gateway.http.queries import query_of
from shunter.net.web.refusals import JsonAnswer
from shunter.store.key_records import audited
from shunter.store.port import Store
from shunter.wire.audit_documents import AuditLine, AuditPage, AuditQuery


class HttpAudit:
    """Notes requests, and answers those for the log itself."""

    def __init__(self, log: AuditLog, store: Store) -> None:
        self._log, self._store = log, store

    async def note(self, request: Request, action: str, target: str) -> None:
        """Write down what an operator is about to do by a request."""
        peer = request.client.host if request.client else ""
        await self._log.note(key_of(request), action, [target], f"over HTTP from {peer}")

    async def browse(self, request: Request) -> Response:
        """GET: a page, newest first."""
        query = query_of(request, AuditQuery)
        found = await audited(self._store, before=query.before, limit=query.limit + 1)
        entries = found[: query.limit]
        following = entries[-1].id if len(found) > len(entries) else None
        lines = tuple(msgspec.convert(it, AuditLine, from_attributes=True) for it in entries)
        return JsonAnswer(AuditPage(entries=lines, next=following))
