"""What dispatchers call: read the request, ask `holdings.py`, do and answer what it says."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from http import HTTPStatus

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shunter.model.allowed_hosts import AllowedHosts
from shunter.model.identity import is_name
from shunter.model.report import Held
from shunter.net.web.application import application
from shunter.net.web.bearer import bearer_token, unauthorized
from shunter.net.web.bodies import aside, read_body
from shunter.net.web.guard import RequestGuard
from shunter.net.web.refusals import HttpRefusal, JsonAnswer, error_answer
from shunter.refusal_log import RefusalLog
from shunter.wire.checked_documents import parsed
from shunter.wire.documents import MAX_ATTEMPT
from shunter.wire.messages import Assignment
from shunter.wire.tagged_values import BadDocument
from shunter.worker.http.holdings import Holdings, Reply, RunOffer
from shunter.worker.http.http_lease import span_in
from shunter.worker.http.offers import Health, RunStanding, offer_of

LEASE_HEADER = b"shunter-lease"
COME_AGAIN = {"Retry-After": "1"}


def worker_app(
    holdings: Holdings,
    *,
    start: Callable[[Assignment], None],
    stop: Callable[[Held], None],
    on_call: Callable[[float], None],
    max_body_bytes: int,
    hosts: AllowedHosts,
    secret: str = "",
) -> ASGIApp:
    """Build the application; `on_call` hears the lease that a dispatcher's call grants.

    Where there is a `secret`, nobody is heard who does not show it.
    """
    on_refused = _noted_in(RefusalLog(logger="shunter.worker"))
    routes = OfferRoutes(holdings, start=start, stop=stop, max_body_bytes=max_body_bytes)
    app = application(
        {
            "/health_check/": {"GET": routes.health_check},
            "/jobs/": {"POST": routes.offer},
            "/jobs/{id}": {"GET": routes.show, "DELETE": routes.cancel},
        },
        on_refused=on_refused,
        directory="a worker serves /health_check/ and /jobs/",
    )

    async def listening(scope: Scope, receive: Receive, send: Send) -> None:
        if secret and scope["type"] == "http" and not _shows(secret, HTTPConnection(scope)):
            refusal = unauthorized("the secret that this worker gave when it registered")
            on_refused(scope["client"][0] if scope.get("client") else "http", refusal)
            await error_answer(refusal)(scope, receive, send)
            return
        for name, value in scope.get("headers", ()):
            if name == LEASE_HEADER and (span := span_in(value.decode("latin-1"))):
                on_call(span)
        await app(scope, receive, send)

    return RequestGuard(listening, hosts, on_refused)


class OfferRoutes:
    """The four operations."""

    def __init__(
        self,
        holdings: Holdings,
        *,
        start: Callable[[Assignment], None],
        stop: Callable[[Held], None],
        max_body_bytes: int,
    ) -> None:
        self._holdings, self._start, self._stop = holdings, start, stop
        self._max_body_bytes = max_body_bytes

    async def health_check(self, request: Request) -> Response:
        """GET: this worker lives."""
        held = self._holdings
        health = Health(id=held.worker_id, jobs=held.under_way, maxJobs=held.max_jobs)
        return JsonAnswer(health)

    async def offer(self, request: Request) -> Response:
        """POST of a job: 202 where it is taken, or was taken before."""
        body = await read_body(request, self._max_body_bytes)
        offer, assignment = await aside(len(body), lambda: offer_of(parsed(body)))
        reply = self._holdings.offered(offer)
        if reply is Reply.START:
            self._start(assignment)
        elif reply is Reply.SUPERSEDES and (earlier := self._holdings.run_of(offer.job_id)):
            self._stop(earlier)
        if reply in (Reply.START, Reply.KNOWN):
            return _standing(offer.job_id, offer.attempt, "taken")
        raise _refusal(reply, offer, self._holdings)

    async def show(self, request: Request) -> Response:
        """GET of a run: 200 as long as it is under way or its report is not confirmed."""
        job_id, attempt = _asked(request)
        if not self._holdings.has(job_id, attempt):
            raise _not_here(job_id, attempt)
        is_running = self._holdings.run_of(job_id, attempt) is not None
        return _standing(job_id, attempt, "taken" if is_running else "ended", HTTPStatus.OK)

    async def cancel(self, request: Request) -> Response:
        """DELETE of a run: 202, and its report will tell how it ended."""
        job_id, attempt = _asked(request)
        if not self._holdings.has(job_id, attempt):
            raise _not_here(job_id, attempt)
        run = self._holdings.run_of(job_id, attempt)
        if run is not None:
            self._stop(run)
        return _standing(job_id, attempt, "stopping" if run else "ended")


def _shows(secret: str, call: HTTPConnection) -> bool:
    token = bearer_token(call)
    return token is not None and hmac.compare_digest(token.encode(), secret.encode())


def _standing(
    job_id: str, attempt: int | None, status: str, code: int = HTTPStatus.ACCEPTED
) -> JsonAnswer:
    return JsonAnswer(RunStanding(id=job_id, attempt=attempt, status=status), code)


def _refusal(reply: Reply, offer: RunOffer, held: Holdings) -> HttpRefusal:
    """Say why a job is not taken; a dispatcher that reads 409 or 503 queues it again."""
    match reply:
        case Reply.UNKNOWN_TYPE:
            known = ", ".join(sorted(held.types)) or "none at all"
            message = f"found {offer.type!r}; this worker does: {known[:500]}"
            return HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, message, field="type")
        case Reply.MISDIRECTED:
            message = f"this worker is {held.worker_id}; offer the job to {offer.worker_id}"
            return HttpRefusal(HTTPStatus.CONFLICT, message, field="execution.worker_id")
        case Reply.OUTDATED:
            message = "a later run of this job is or was here; offer no earlier one"
            return HttpRefusal(HTTPStatus.CONFLICT, message, field="attempt", code="stale_attempt")
        case Reply.SUPERSEDES:
            message = "an earlier run of this job is being stopped; offer it again in a moment"
            return HttpRefusal(HTTPStatus.CONFLICT, message, field="attempt", headers=COME_AGAIN)
        case Reply.CLOSED:
            message = f"{held.closed}; offer the job to another worker"
        case _:
            message = (
                f"{held.under_way} of {held.max_jobs} jobs are under way, "
                "or too many reports wait for a dispatcher; offer the job again later"
            )
    return HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, headers=COME_AGAIN)


def _asked(request: Request) -> tuple[str, int | None]:
    """Return which run a request is about; without an attempt, any run of the job."""
    job_id: str = request.path_params["id"]
    if not job_id:
        message = "all jobs at once can't be asked about; name one"
        raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, message, headers={"Allow": "POST"})
    attempts = request.query_params.getlist("attempt")
    if not attempts:
        return job_id, None
    text = attempts[0]
    is_number = text.isascii() and text.isdecimal() and len(text) < 11
    if len(attempts) > 1 or not is_number or int(text) > MAX_ATTEMPT:
        raise BadDocument("attempt", "send the attempt of the run, one whole number")
    return job_id, int(text)


def _not_here(job_id: str, attempt: int | None) -> HttpRefusal:
    what = job_id[:128] if is_name(job_id) else "of that name"
    which = "" if attempt is None else f", attempt {attempt},"
    message = f"job {what}{which} is not here; it never was, or its end has been reported"
    return HttpRefusal(HTTPStatus.NOT_FOUND, message, field="id")


def _noted_in(log: RefusalLog) -> Callable[[str, HttpRefusal], None]:
    """Return what notes bad requests, once for each peer and reason."""
    return lambda peer, refusal: log.note(peer, refusal.detail.code, refusal.detail.message)
