"""What people do from a page: each order is checked, noted, carried out, and answered by a page.

Orders are those of the HTTP gateway; nothing is decided here but who may give which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shunter.dispatch.limit_changes import change_limits
from shunter.dispatch.pauses import pause, resume
from shunter.errors import LimitsRefused, PauseRefused, ScheduleError
from shunter.gateway.http.page_port import PagePorts
from shunter.model.identity import is_name
from shunter.model.key import Action
from shunter.model.limits_record import LimitsChange
from shunter.model.pause import PauseTarget, key_fault
from shunter.net.web.refusals import HttpRefusal, not_found, refusal_of, unavailable
from shunter.page import markup
from shunter.page.filters import JobFilter, filter_of
from shunter.page.limit_form import limits_change
from shunter.page.schedule_form import schedule_draft
from shunter.page.system_look import SystemLook
from shunter.page.view import PageRequest
from shunter.wire.checked_documents import parsed
from shunter.wire.documents import rerun_of
from shunter.wire.tagged_values import BadDocument

MOST_AT_ONCE = 1000
"""How many jobs one order may change."""

CHANGED_AT_ONCE = 50

NOTICES = {
    "cancelled": "cancelled, or being stopped",
    "rerun": "submitted again",
    "paused": "paused",
    "resumed": "resumed",
    "drained": "gets nothing new",
    "triggered": "made a job",
    "limited": "limits changed",
    "changed": "schedule changed",
}
"""What is said after an order, by its word in the address: no text from there is shown."""

Fields = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Given:
    """One order, by whom, about what."""

    request: Request
    asked: PageRequest
    verb: str
    target: str
    fields: Mapping[str, str]
    jobs: tuple[str, ...]
    frame: Mapping[str, Any]

    def done(self, word: str, count: int = 1, to: str = "") -> Response:
        """Go back to the page, which says what was done."""
        path, _, query = (to or self.fields.get("back", "") or "/").partition("?")
        path = path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
        kept = [it for it in query.split("&") if it and not it.startswith(("done=", "count="))]
        said = urlencode({"done": word, "count": count})
        return RedirectResponse(f"{path}?{'&'.join([*kept, said])}", HTTPStatus.SEE_OTHER)


Perform = Callable[[Given], Awaitable[Response]]


class PageActions:
    """Carries out what people order."""

    def __init__(self, ports: PagePorts, look: SystemLook) -> None:
        self._ports, self._look = ports, look
        self._verbs: dict[str, tuple[Action, Perform]] = {
            "cancel": (Action.CANCEL, self._cancel),
            "rerun": (Action.SUBMIT, self._rerun),
            "cancel-selected": (Action.CANCEL, self._cancel_selected),
            "rerun-selected": (Action.SUBMIT, self._rerun_selected),
            "ask-cancel-found": (Action.CANCEL, self._ask),
            "ask-rerun-found": (Action.SUBMIT, self._ask),
            "cancel-found": (Action.CANCEL, self._cancel_found),
            "rerun-found": (Action.SUBMIT, self._rerun_found),
            "cancel-run": (Action.CANCEL, self._cancel_run),
            "rerun-run": (Action.SUBMIT, self._rerun_run),
            "pause-type": (Action.OPERATE, self._hold(PauseTarget.TYPE, "paused")),
            "resume-type": (Action.OPERATE, self._let_go(PauseTarget.TYPE)),
            "drain": (Action.OPERATE, self._hold(PauseTarget.WORKER, "drained")),
            "undrain": (Action.OPERATE, self._let_go(PauseTarget.WORKER)),
            "pause-schedule": (Action.SUBMIT, self._schedule("paused")),
            "resume-schedule": (Action.SUBMIT, self._schedule("resumed")),
            "trigger-schedule": (Action.SUBMIT, self._schedule("triggered")),
            "change-schedule": (Action.SUBMIT, self._change_schedule),
            "set-limits": (Action.OPERATE, self._set_limits),
            "reset-limits": (Action.OPERATE, self._set_limits),
        }

    async def perform(
        self, request: Request, asked: PageRequest, fields: Fields, frame: Mapping[str, Any]
    ) -> Response:
        """Carry out the order of a form, or refuse it."""
        values = dict(fields)
        verb, _, target = values.get("order", "").partition(" ")
        known = self._verbs.get(verb)
        if known is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such order", field="order")
        action, carry_out = known
        if action not in asked.may:
            refusal = asked.key.refusal(action) if asked.key else None
            message = refusal or "this page is read-only (http.page); use another dispatcher's"
            raise HttpRefusal(HTTPStatus.FORBIDDEN, message)
        jobs = tuple(text for name, text in fields if name == "job" and is_name(text))
        try:
            return await carry_out(Given(request, asked, verb, target, values, jobs, frame))
        except BadDocument as error:
            raise refusal_of(error) from None
        finally:
            self._look.forget()

    @staticmethod
    def notice(query: Mapping[str, str]) -> str:
        """Say what was done, from the address of the page that is shown after it."""
        text, count = NOTICES.get(query.get("done", "")), query.get("count", "")
        if text is None or not (count.isascii() and count.isdecimal() and len(count) < 8):
            return ""
        return f"{int(count):,} {text}" if query["done"] in ("cancelled", "rerun") else text

    async def _note(self, given: Given, action: str, target: str) -> None:
        await self._ports.audit.note(given.request, action, target[:128])

    # ---- jobs

    async def _cancel(self, given: Given) -> Response:
        _check_name(given.target)
        await self._note(given, "cancel job", given.target)
        await self._ports.orders.cancel(given.target, given.asked.scope)
        return given.done("cancelled")

    async def _rerun(self, given: Given) -> Response:
        _check_name(given.target)
        written = given.fields.get("payload")
        change = {} if written is None else {"payload": parsed(written.encode())}
        new_id = await self._rerun_one(given, given.target, change)
        return given.done("rerun", to=f"/jobs/{new_id}")

    async def _rerun_one(self, given: Given, job_id: str, change: dict[str, Any]) -> str:
        job = await self._ports.orders.job(job_id, given.asked.scope)
        submission = rerun_of(change, job, new_id=self._ports.new_id())
        await self._note(given, "rerun job", job_id)
        stored = await self._ports.orders.submit(submission, given.asked.scope)
        return stored.job.id

    async def _cancel_selected(self, given: Given) -> Response:
        return given.done("cancelled", await self._cancel_all(given, given.jobs))

    async def _rerun_selected(self, given: Given) -> Response:
        return given.done("rerun", await self._rerun_all(given, given.jobs))

    async def _cancel_all(self, given: Given, ids: Sequence[str]) -> int:
        if not ids:
            raise HttpRefusal(422, "no job was chosen; tick some of them", field="job")
        done = 0
        for start in range(0, len(ids), CHANGED_AT_ONCE):
            some = list(ids[start : start + CHANGED_AT_ONCE])
            for job_id in some:
                await self._note(given, "cancel job", job_id)
            done += await self._ports.orders.cancel_all(some, given.asked.scope)
        return done

    async def _rerun_all(self, given: Given, ids: Sequence[str]) -> int:
        if not ids:
            raise HttpRefusal(422, "no job was chosen; tick some of them", field="job")
        done = 0
        for start in range(0, len(ids), CHANGED_AT_ONCE):
            answers = await asyncio.gather(
                *(self._rerun_one(given, it, {}) for it in ids[start : start + CHANGED_AT_ONCE]),
                return_exceptions=True,
            )
            for answer in answers:
                if isinstance(answer, BaseException) and not isinstance(
                    answer, HttpRefusal | BadDocument
                ):
                    raise answer
                done += isinstance(answer, str)
        return done

    async def _ask(self, given: Given) -> Response:
        """Say how many jobs an order would change, before it is given."""
        chosen = filter_of(given.fields)
        ids, is_more = await self._found(given, chosen)
        verb = given.verb.removeprefix("ask-")
        values = {
            **given.frame,
            "title": "Are you sure?",
            "back": f"/jobs?{chosen.address()}",
            "verb": verb,
            "word": verb.partition("-")[0],
            "count": len(ids),
            "is_more": is_more,
            "filter": chosen,
        }
        return Response(markup.page("confirm", values), media_type="text/html")

    async def _cancel_found(self, given: Given) -> Response:
        ids, _ = await self._found(given, filter_of(given.fields))
        return given.done("cancelled", await self._cancel_all(given, ids))

    async def _rerun_found(self, given: Given) -> Response:
        ids, _ = await self._found(given, filter_of(given.fields))
        return given.done("rerun", await self._rerun_all(given, ids))

    async def _found(self, given: Given, chosen: JobFilter) -> tuple[list[str], bool]:
        """Return the jobs that a filter finds and that can be changed so, up to as many as may."""
        if chosen.faults:
            raise HttpRefusal(422, "; ".join(chosen.faults))
        is_rerun = "rerun" in given.verb
        found: list[str] = []
        after: str | None = None
        for _ in range(MOST_AT_ONCE):
            wanted = chosen.search(given.asked.scope, after=after, limit=200)
            seen = await self._ports.dispatcher.store.search(wanted)
            found += [job.id for job in seen.jobs if job.status.is_final == is_rerun]
            after = seen.next
            if after is None or len(found) >= MOST_AT_ONCE:
                break
        return found[:MOST_AT_ONCE], after is not None

    # ---- runs of workflows

    async def _cancel_run(self, given: Given) -> Response:
        view = await self._ports.runs.run(given.target, given.asked.scope)
        await self._note(given, "cancel run", view.id)
        receipts = await self._ports.runs.cancel(view, given.asked.scope)
        return given.done("cancelled", sum(not receipt.reason for receipt in receipts))

    async def _rerun_run(self, given: Given) -> Response:
        view = await self._ports.runs.run(given.target, given.asked.scope)
        await self._note(given, "rerun run", view.id)
        receipts = await self._ports.runs.rerun(view, given.asked.scope)
        return given.done("rerun", len(receipts))

    # ---- types, workers, schedules, limits

    def _hold(self, target: PauseTarget, word: str) -> Perform:
        async def carry_out(given: Given) -> Response:
            _check_key(given.asked)
            await self._note(given, f"pause {target}", given.target)
            by = given.asked.key.name if given.asked.key else ""
            try:
                await pause(self._ports.dispatcher, target, given.target, by=by)
            except PauseRefused as error:
                raise HttpRefusal(HTTPStatus.CONFLICT, str(error), field="name") from None
            return given.done(word)

        return carry_out

    def _let_go(self, target: PauseTarget) -> Perform:
        async def carry_out(given: Given) -> Response:
            _check_key(given.asked)
            await self._note(given, f"resume {target}", given.target)
            try:
                await resume(self._ports.dispatcher, target, given.target)
            except PauseRefused as error:
                raise HttpRefusal(HTTPStatus.CONFLICT, str(error), field="name") from None
            return given.done("resumed")

        return carry_out

    def _schedule(self, word: str) -> Perform:
        book = self._ports.book
        acts: dict[str, Callable[..., Awaitable[object]]] = {
            "paused": book.pause,
            "resumed": book.resume,
            "triggered": book.trigger,
        }

        async def carry_out(given: Given) -> Response:
            namespace, _, name = given.target.partition("/")
            await self._note(given, f"{given.verb.replace('-', ' ')}", name)
            if word == "triggered" and self._ports.dispatcher.is_full:
                raise unavailable("too many jobs are waiting to be stored; try in a second")
            try:
                await acts[word](given.asked.scope, name, namespace)
            except ScheduleError as error:
                raise HttpRefusal(HTTPStatus.CONFLICT, str(error), field="name") from None
            return given.done(word)

        return carry_out

    async def _change_schedule(self, given: Given) -> Response:
        namespace, _, name = given.target.partition("/")
        scope, book = given.asked.scope, self._ports.book
        await self._note(given, "change schedule", name)
        try:
            draft = schedule_draft(await book.found(scope, name, namespace), given.fields)
            await book.put(scope, name, draft, namespace)
        except ScheduleError as error:
            raise HttpRefusal(422, str(error), field="name") from None
        return given.done("changed")

    async def _set_limits(self, given: Given) -> Response:
        _check_key(given.asked)
        is_reset = given.verb == "reset-limits"
        change = LimitsChange(is_default=True) if is_reset else limits_change(given.fields)
        await self._note(given, "change limits", given.target)
        try:
            await change_limits(self._ports.dispatcher.store, given.target, change)
        except LimitsRefused as error:
            raise HttpRefusal(422, str(error), field=error.field) from None
        return given.done("limited")


def _check_name(job_id: str) -> None:
    if not is_name(job_id):
        raise not_found(job_id)


def _check_key(asked: PageRequest) -> None:
    """Refuse a key of a namespace: what it would hold back is everybody's."""
    if fault := key_fault(asked.key):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, fault)
