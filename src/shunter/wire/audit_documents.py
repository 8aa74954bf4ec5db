"""The audit log as JSON documents. Pure. Spec: docs/spec/http.md."""

from __future__ import annotations

from shunter.wire.checked_documents import Document, Name
from shunter.wire.documents import Limit


class AuditQuery(Document, frozen=True, kw_only=True):
    """Which lines to show: `before` is the `next` of the page before."""

    limit: Limit = 50
    before: Name | None = None


class AuditLine(Document, frozen=True, kw_only=True):
    """Who did what to whom; `at` is seconds since 1970, `actor` the name of a key or a user."""

    id: str
    at: float
    actor: str
    action: str
    target: str
    detail: str = ""


class AuditPage(Document, frozen=True, kw_only=True):
    """Some lines, newest first; `next` is null on the last page."""

    entries: tuple[AuditLine, ...]
    next: str | None
