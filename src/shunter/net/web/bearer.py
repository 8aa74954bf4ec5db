"""Bearer tokens: how a caller shows one, and what is said to who shows none that counts."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import HTTPConnection

from shunter.net.web.refusals import HttpRefusal

SCHEME = "bearer"


def bearer_token(request: HTTPConnection) -> str | None:
    """Return the token of a request, if it shows exactly one."""
    shown = request.headers.getlist("authorization")
    if len(shown) != 1:
        return None
    scheme, _, token = shown[0].partition(" ")
    return token.strip() or None if scheme.lower() == SCHEME else None


def bearing(token: str) -> dict[str, str]:
    """Return the headers of a call that shows a token."""
    return {"Authorization": f"Bearer {token}"}


def unauthorized(what: str) -> HttpRefusal:
    """Ask for a token; the same whether there was none, or one that is unknown or revoked."""
    return HttpRefusal(
        HTTPStatus.UNAUTHORIZED,
        f"found no token that counts; send `Authorization: Bearer TOKEN` with {what}",
        field="Authorization",
        headers={"WWW-Authenticate": "Bearer"},
    )
