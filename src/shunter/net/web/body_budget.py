"""How much memory the bodies of all requests and answers of one server may take together.

Each alone is bounded already; a thousand at once are not. What does not fit is answered with 503.
Small ones always fit, so that probes and short questions are answered whatever others do.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shunter.net.web.refusals import HttpRefusal, error_answer

INCOMING_BYTES = 128 * 1024 * 1024
OUTGOING_BYTES = 128 * 1024 * 1024
SMALL_BYTES = 64 * 1024

HEADERS = {"Retry-After": "1", "Connection": "close"}


class BodyBudget:
    """Lets requests through to an application while there is memory for their bodies.

    `unread_bytes` tells how much of earlier answers waits for clients to read it.
    """

    def __init__(self, app: ASGIApp, unread_bytes: Callable[[], int]) -> None:
        self._app, self._unread_bytes = app, unread_bytes
        self._incoming = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held = 0
        start: Message | None = None
        is_refused = False

        async def counted() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            if held + size > SMALL_BYTES and self._incoming + size > INCOMING_BYTES:
                raise _full("requests")
            held += size
            self._incoming += size
            return message

        async def bounded(message: Message) -> None:
            nonlocal start, is_refused
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                size = len(message.get("body", b""))
                first, start = start, None
                if size > SMALL_BYTES and self._unread_bytes() + size > OUTGOING_BYTES:
                    is_refused = True
                    await error_answer(_full("answers"))(scope, receive, send)
                    return
                await send(first)
            if not is_refused:
                await send(message)

        try:
            await self._app(scope, counted, bounded)
        finally:
            self._incoming -= held


def _full(what: str) -> HttpRefusal:
    message = f"{what} that are under way take all their memory; ask again in a second"
    return HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, headers=HEADERS)
