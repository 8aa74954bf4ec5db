"""What a client that is opened here talks to, if not to dispatchers: in a handler, its sandbox."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shunter.client.session import OpenSession

session_opener: ContextVar[OpenSession | None] = ContextVar("shunter_session_opener", default=None)
