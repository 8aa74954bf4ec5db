"""The schedules' routes: put, look, pause, resume, trigger, backfill, remove.

Spec: docs/spec/http.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.errors import ScheduleNotFound, ScheduleRefused
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.jobs import job_scope
from shunter.gateway.http.queries import query_of
from shunter.model.schedule import Schedule
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, JsonAnswer, unavailable
from shunter.wire.checked_documents import checked, parsed
from shunter.wire.schedule_documents import (
    BackfillRequest,
    MadeJobs,
    ScheduleList,
    ScheduleQuery,
    SchedulesQuery,
    TriggerQuery,
    draft_of,
    schedule_document,
)

FIELDS = {
    "cron.text": "cron",
    "cron.tz": "tz",
    "every.seconds": "every",
    "timeout": "execution.timeout",
    "name": "id",
}
"""What a field is called in documents, where that is not its name."""


class ScheduleRoutes:
    """What HTTP clients may do with schedules."""

    def __init__(
        self, dispatcher: Dispatcher, book: ScheduleBook, audit: HttpAudit, *, max_body_bytes: int
    ) -> None:
        self._dispatcher, self._book, self._audit = dispatcher, book, audit
        self._max_body_bytes = max_body_bytes

    async def browse(self, request: Request) -> Response:
        """GET of all: some of them, by falling names."""
        asked = query_of(request, SchedulesQuery)
        page = await self._book.listed(
            job_scope(request), namespace=asked.namespace, before=asked.before, limit=asked.limit
        )
        documents = tuple(schedule_document(it, in_full=False) for it in page.schedules)
        return JsonAnswer(ScheduleList(schedules=documents, next=page.next))

    async def show(self, request: Request) -> Response:
        """GET of one."""
        namespace, name = query_of(request, ScheduleQuery).namespace, _name(request)
        with _refusals():
            return _written(await self._book.found(job_scope(request), name, namespace))

    async def put(self, request: Request) -> Response:
        """PUT: the schedule is as it was sent, whatever there was before."""
        namespace, name = query_of(request, ScheduleQuery).namespace, _name(request)
        draft = draft_of(parsed(await read_body(request, self._max_body_bytes)), name)
        await self._note(request, "put schedule")
        with _refusals():
            return _written(await self._book.put(job_scope(request), name, draft, namespace))

    async def remove(self, request: Request) -> Response:
        """DELETE: answered with what was removed."""
        namespace, name = query_of(request, ScheduleQuery).namespace, _name(request)
        await self._note(request, "remove schedule")
        with _refusals():
            scope = job_scope(request)
            found = await self._book.found(scope, name, namespace)
            await self._book.remove(scope, name, namespace)
            return _written(found)

    async def pause(self, request: Request) -> Response:
        """POST: no more jobs are made."""
        namespace, name = query_of(request, ScheduleQuery).namespace, _name(request)
        await self._note(request, "pause schedule")
        with _refusals():
            return _written(await self._book.pause(job_scope(request), name, namespace))

    async def resume(self, request: Request) -> Response:
        """POST: go on with the next tick."""
        namespace, name = query_of(request, ScheduleQuery).namespace, _name(request)
        await self._note(request, "resume schedule")
        with _refusals():
            return _written(await self._book.resume(job_scope(request), name, namespace))

    async def trigger(self, request: Request) -> Response:
        """POST: make a job now."""
        asked, name = query_of(request, TriggerQuery), _name(request)
        self._check_room()
        await self._note(request, "trigger schedule")
        with _refusals():
            made = await self._book.trigger(
                job_scope(request), name, asked.namespace, job_id=asked.job_id or ""
            )
        return JsonAnswer(MadeJobs(job_ids=(made,)), HTTPStatus.CREATED)

    async def backfill(self, request: Request) -> Response:
        """POST: make the jobs of ticks that are past."""
        namespace, name = query_of(request, ScheduleQuery).namespace, _name(request)
        body = await read_body(request, self._max_body_bytes)
        backfill = checked(parsed(body), BackfillRequest)
        self._check_room()
        await self._note(request, "backfill schedule")
        with _refusals():
            made = await self._book.backfill(
                job_scope(request), name, namespace, begin=backfill.begin, end=backfill.end
            )
        return JsonAnswer(MadeJobs(job_ids=tuple(made)), HTTPStatus.CREATED)

    async def _note(self, request: Request, action: str) -> None:
        await self._audit.note(request, action, _name(request)[:128])

    def _check_room(self) -> None:
        if self._dispatcher.is_full:
            raise unavailable("too many jobs are waiting to be stored; send it again in a second")


@contextmanager
def _refusals() -> Iterator[None]:
    """Say in HTTP what is wrong with a schedule."""
    try:
        yield
    except ScheduleNotFound as error:
        raise HttpRefusal(HTTPStatus.NOT_FOUND, str(error), field="id") from None
    except ScheduleRefused as error:
        field = FIELDS.get(error.field, error.field)
        raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, error.reason, field=field) from None


def _written(schedule: Schedule) -> Response:
    return JsonAnswer(schedule_document(schedule))


def _name(request: Request) -> str:
    name: str = request.path_params["id"]
    if not name:
        allow = {"Allow": "GET, HEAD"}
        message = "all schedules at once can't be changed; name one"
        raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, message, headers=allow)
    return name
