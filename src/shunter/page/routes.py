"""The routes of the page: who comes in, which view it is, and what is sent.

Everything that comes from here has the same strict headers. Spec: docs/spec/http.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Hashable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from shunter.errors import StoreError
from shunter.gateway.http.access import KEY
from shunter.gateway.http.page_port import PagePorts, PageRoutes
from shunter.model.key import RIGHTS, Action, Key
from shunter.model.scope import EVERYTHING, scope_of
from shunter.net.web.application import Handler
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, unavailable
from shunter.page import live, markup, session
from shunter.page.actions import PageActions
from shunter.page.changes import Snapshot
from shunter.page.system_look import SystemLook
from shunter.page.view import PageRequest, View
from shunter.page.views import VIEWS

FORM = "application/x-www-form-urlencoded"
MOST_FORM_BYTES = 1 << 20
MOST_FIELDS = 1100

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class SignInNeeded(Exception):
    """Nobody is known to whom this could be shown."""


def page_routes(ports: PagePorts) -> PageRoutes:
    """Return all that is served to people."""
    page = _Page(ports)
    routes: dict[str, dict[str, Handler]] = {
        "/sign-in": {"GET": page.guarded(page.ask_token), "POST": page.guarded(page.sign_in)},
        "/sign-out": {"POST": page.guarded(page.sign_out)},
        "/act": {"POST": page.guarded(page.act)},
        "/page/{id}": {"GET": page.guarded(page.asset)},
        "/live": {"GET": page.guarded(page.live)},
    }
    for view in VIEWS:
        routes[view.path] = {"GET": page.guarded(page.shown(view))}
    return PageRoutes(methods=routes, lost=page.guarded(page.lost))


class _Page:
    def __init__(self, ports: PagePorts) -> None:
        self._ports, self._look = ports, SystemLook(ports)
        self._actions = PageActions(ports, self._look)
        self._views = {view.name: view for view in VIEWS}
        self._streams = 0
        self._feeds: dict[Hashable, live.Feed] = {}

    # ---- who comes in

    def guarded(self, handler: Handler) -> Handler:
        """Answer with a page whatever goes wrong, under strict headers."""

        async def handle(request: Request) -> Response:
            try:
                answer = await handler(request)
            except SignInNeeded:
                path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                query = urlencode({"back": path}) if request.method == "GET" else ""
                answer = RedirectResponse(f"/sign-in?{query}", HTTPStatus.SEE_OTHER)
            except StoreError as error:
                answer = self._refusal(request, unavailable(f"{error}; ask again later"))
            except HttpRefusal as refusal:
                answer = self._refusal(request, refusal)
            for name, value in HEADERS.items():
                answer.headers.setdefault(name, value)
            return answer

        return handle

    def _asked(self, request: Request, view: View | None = None) -> PageRequest:
        """Find out who asks, or raise SignInNeeded."""
        query = dict(request.query_params)
        may = frozenset(Action) if self._ports.options.may_change else RIGHTS_OF_READERS
        job_id = request.path_params.get("id", "")
        if not self._ports.keys.is_on:
            return PageRequest(key=None, scope=EVERYTHING, may=may, query=query, id=job_id)
        key = self._key(request)
        if key is None:
            raise SignInNeeded
        request.scope[KEY] = key
        asked = PageRequest(
            key=key, scope=scope_of(key), may=may & RIGHTS[key.role], query=query, id=job_id
        )
        if view is not None:
            if view.opening not in asked.may:
                message = key.refusal(view.opening) or f"key {key.name!r} may not see this"
                raise HttpRefusal(HTTPStatus.FORBIDDEN, message)
            if not view.is_for_all and not key.sees_all:
                message = f"key {key.name!r} is of a namespace, and sees its jobs alone"
                raise HttpRefusal(HTTPStatus.FORBIDDEN, message)
        return asked

    def _key(self, request: Request) -> Key | None:
        cookie = request.cookies.get(session.COOKIE, "")
        keys = self._ports.keys
        return session.opened(cookie, keys.ring, now=self._look.now, secret=keys.secret)

    async def ask_token(self, request: Request) -> Response:
        """GET of the form for a token."""
        return self._sign_in_form(request.query_params.get("back", ""))

    async def sign_in(self, request: Request) -> Response:
        """POST of a token: a session for who shows one that counts."""
        fields = await self._fields(request)
        keys = self._ports.keys
        key = keys.ring.with_token(fields.get("token", "").strip()) if keys.is_on else None
        if key is None:
            return self._sign_in_form(fields.get("back", ""), is_refused=True)
        answer = RedirectResponse(_own_path(fields.get("back", "")), HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            session.COOKIE,
            session.sealed(key, now=self._look.now, secret=keys.secret),
            max_age=int(session.SESSION_SECONDS),
            httponly=True,
            samesite="lax",
            secure=self._ports.options.is_secure,
        )
        return answer

    async def sign_out(self, request: Request) -> Response:
        """POST: the session is over in this browser."""
        self._check_form(request, await self._fields(request))
        answer = RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(session.COOKIE, httponly=True, samesite="lax")
        return answer

    def _sign_in_form(self, back: str, *, is_refused: bool = False) -> Response:
        values = {"back": _own_path(back), "is_refused": is_refused, "title": "Sign in"}
        status = HTTPStatus.UNAUTHORIZED if is_refused else HTTPStatus.OK
        return _html(markup.page("sign_in", values), status)

    # ---- what is shown

    def shown(self, view: View) -> Handler:
        """Return the handler that shows a view."""

        async def show(request: Request) -> Response:
            self._check_ready()
            asked = self._asked(request, view)
            data = await view.read(self._look, asked)
            found = markup.snapshot(view, data)
            values = {**data, **markup.marked(found), **self._frame(request, asked, view)}
            values |= {"digest": found.digest, "live": self._live_address(view, request)}
            return _html(markup.page(view.name, values))

        return show

    async def live(self, request: Request) -> Response:
        """GET of the stream of one view."""
        view = self._views.get(request.query_params.get("view", ""))
        if view is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such view", field="view")
        if self._streams >= live.MOST_STREAMS:
            raise unavailable(f"{live.MOST_STREAMS} pages are kept live here; close some of them")
        asked = self._asked(request, view)
        query = {name: text for name, text in asked.query.items() if name not in LIVE_FIELDS}
        asked = PageRequest(
            key=asked.key,
            scope=asked.scope,
            may=asked.may,
            query=query,
            id=asked.query.get("id", ""),
        )
        name = (view.name, asked.id, tuple(sorted(query.items())), asked.scope, asked.may)

        def is_over() -> bool:
            return not self._ports.is_ready()

        async def told() -> Any:
            feed = self._feeds.setdefault(name, live.Feed(self._reader(view, asked)))

            async def look() -> Snapshot:
                self._asked(request, view)  # a key may have been revoked meanwhile
                return await self._look.once(name, feed.look)

            self._streams, feed.streams = self._streams + 1, feed.streams + 1
            shown = request.query_params.get("digest", "")
            try:
                async for event in live.stream(look, feed=feed, shown=shown, is_over=is_over):
                    yield event
            finally:
                self._streams, feed.streams = self._streams - 1, feed.streams - 1
                if not feed.streams:
                    self._feeds.pop(name, None)

        return StreamingResponse(told(), media_type=live.MEDIA_TYPE)

    def _reader(self, view: View, asked: PageRequest) -> Callable[[], Awaitable[Snapshot]]:
        """Return how a view is looked at again and again: only what changed is drawn."""
        last: markup.Drawn | None = None

        async def read() -> Snapshot:
            nonlocal last
            last = markup.drawn(view, await view.read(self._look, asked), last)
            return last.snapshot

        return read

    async def asset(self, request: Request) -> Response:
        """GET of a style sheet or a script."""
        found = markup.asset(request.path_params["id"])
        if found is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such file")
        content, media_type = found
        kept = {"Cache-Control": "public, max-age=3600"}
        return Response(content, media_type=media_type, headers=kept)

    async def lost(self, request: Request) -> Response:
        """GET of a path that is not there: lead back to one that is."""
        raise HttpRefusal(HTTPStatus.NOT_FOUND, f"there is no page at {request.url.path[:128]}")

    # ---- what is changed

    async def act(self, request: Request) -> Response:
        """POST of an order."""
        self._check_ready()
        asked = self._asked(request)
        fields = await self._field_list(request)
        request.state.back = _own_path(dict(fields).get("back", ""))
        self._check_form(request, dict(fields))
        return await self._actions.perform(request, asked, fields, self._frame(request, asked))

    async def _fields(self, request: Request) -> dict[str, str]:
        return dict(await self._field_list(request))

    async def _field_list(self, request: Request) -> list[tuple[str, str]]:
        body = await read_body(request, MOST_FORM_BYTES, expected=FORM)
        try:
            return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "this is no form of ours") from None

    def _check_form(self, request: Request, fields: Mapping[str, str]) -> None:
        cookie, secret = request.cookies.get(session.COOKIE, ""), self._ports.keys.secret
        if not session.is_own_form(fields.get("token", ""), cookie, secret=secret):
            message = "this form is not from a page of yours, or too old; load the page again"
            raise HttpRefusal(HTTPStatus.FORBIDDEN, message, field="token")

    # ---- shared

    def _frame(
        self, request: Request, asked: PageRequest | None, view: View | None = None
    ) -> dict[str, Any]:
        cookie = request.cookies.get(session.COOKIE, "")
        menu = [
            it
            for it in VIEWS
            if it.is_in_menu
            and asked is not None
            and it.opening in asked.may
            and (it.is_for_all or asked.scope.sees_all)
        ]
        return {
            "title": view.title if view else "",
            "view": view,
            "menu": menu,
            "who": asked.key.name if asked and asked.key else "",
            "has_keys": self._ports.keys.is_on,
            "is_read_only": not self._ports.options.may_change,
            "form_token": session.form_token(cookie, secret=self._ports.keys.secret),
            "now": self._look.now,
            "dispatcher": self._ports.dispatcher.id,
            "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            "back": "",
            "done": self._actions.notice(request.query_params),
            "live": "",
            "digest": "",
        }

    def _live_address(self, view: View, request: Request) -> str:
        query = {"view": view.name, "id": request.path_params.get("id", "")}
        query |= {k: v for k, v in request.query_params.items() if k not in LIVE_FIELDS}
        return "/live?" + urlencode({name: text for name, text in query.items() if text})

    def _refusal(self, request: Request, refusal: HttpRefusal) -> Response:
        asked = None
        with contextlib.suppress(SignInNeeded):
            asked = self._asked(request)
        title = REFUSAL_TITLES.get(refusal.status, refusal.status.phrase)
        values = {**self._frame(request, asked), "title": title}
        values |= {"message": str(refusal), "back": getattr(request.state, "back", "")}
        answer = _html(markup.page("refusal", values), refusal.status)
        answer.headers.update(refusal.headers)
        return answer

    def _check_ready(self) -> None:
        if not self._ports.is_ready():
            raise unavailable("the dispatcher is starting or stopping; ask again, or another one")


LIVE_FIELDS = ("view", "digest", "id", "done", "count")
"""What stands in an address beside what a view is asked for."""

REFUSAL_TITLES = {
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.CONFLICT: "Not done",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Not done",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not now",
}
RIGHTS_OF_READERS = frozenset({Action.SEE_JOBS, Action.SEE_SYSTEM})


def _html(text: str, status: int = HTTPStatus.OK) -> Response:
    return Response(text, status, media_type="text/html")


def _own_path(back: str) -> str:
    """Return where to go on: a path of ours, whatever was sent."""
    is_ours = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable()
    return quote(back, safe="/?=&%:@-._~+,") if is_ours and "\\" not in back else "/"
