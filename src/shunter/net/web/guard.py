"""Requests that a browser was tricked into sending are refused before anybody reads them.

A page of a stranger's can have a browser call an address inside a network: by its own name, which
leads there (DNS rebinding), or across sites. The first is known by a Host that is not ours, the
second by Origin and Sec-Fetch-Site, which pages can't forge.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shunter.model.allowed_hosts import AllowedHosts, is_same_address
from shunter.net.web.application import OnRefused
from shunter.net.web.refusals import HttpRefusal, error_answer

OWN_SITE = (b"same-origin", b"none")
LINK = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
"""How a browser comes that follows a link, and shows the answer to nobody but its user."""
CLOSE = {"Connection": "close"}
NO_SNIFFING = (b"x-content-type-options", b"nosniff")


class RequestGuard:
    """Lets requests through to an application whose headers are those of a friend.

    `hosts` are those that callers may name, beside the address at which they came in. `linked` are
    the paths of pages for people, to which other sites may have links.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: AllowedHosts,
        on_refused: OnRefused,
        *,
        linked: Sequence[str] = (),
    ) -> None:
        self._app, self._hosts, self._on_refused = app, hosts, on_refused
        self._linked = tuple(path.partition("{")[0] for path in linked)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), NO_SNIFFING]
            await send(message)

        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            self._on_refused(scope["client"][0] if scope.get("client") else "http", refusal)
            await error_answer(refusal)(scope, receive, sealed)
        else:
            await self._app(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> HttpRefusal | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if host and not self._is_ours(host, scope):
            return HttpRefusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"found {host[:128]!r}, which is none of this server's names; call it by its "
                f"address, or add the name to {self._hosts.setting}",
                field="Host",
                headers=CLOSE,
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            return _from_elsewhere("Origin", origin)
        site = headers.get(b"sec-fetch-site", OWN_SITE[0])
        if site not in OWN_SITE and not self._is_link(scope, headers):
            return _from_elsewhere("Sec-Fetch-Site", site)
        if b"content-length" in headers and b"transfer-encoding" in headers:
            return HttpRefusal(
                HTTPStatus.BAD_REQUEST,
                "found both Content-Length and Transfer-Encoding; send one of them",
                field="Content-Length",
                headers=CLOSE,
            )
        return None

    def _is_link(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """True if a person follows a link to a page: nothing is changed, no stranger sees it."""
        path: str = scope["path"]
        return (
            scope["method"] == "GET"
            and all(headers.get(name) == value for name, value in LINK.items())
            and any(path == it or (it != "/" and path.startswith(it)) for it in self._linked)
        )

    def _is_ours(self, header: str, scope: Scope) -> bool:
        name = header.partition("]")[0].lstrip("[") if "[" in header else header.partition(":")[0]
        server = scope.get("server")
        return self._hosts.has(name) or (server is not None and is_same_address(name, server[0]))


def _from_elsewhere(field: str, found: bytes) -> HttpRefusal:
    shown = found.decode("latin-1")[:128]
    return HttpRefusal(
        HTTPStatus.FORBIDDEN,
        f"found {shown!r}: a page of another site may not call this; call it from a program",
        field=field,
        headers=CLOSE,
    )
