"""The views of what is laid down: schedules, and limits with who holds which place."""

from __future__ import annotations

from shunter.errors import ScheduleError
from shunter.model.identity import is_name
from shunter.model.job import Job, Status
from shunter.model.key import Action
from shunter.model.limits_record import LimitsRecord
from shunter.model.schedule import Overlap, Schedule
from shunter.net.web.refusals import HttpRefusal
from shunter.page.schedule_form import fields_of
from shunter.page.schedule_rows import MORE_TICKS, schedule_row, ticks_of
from shunter.page.system_look import SystemLook
from shunter.page.view import Data, PageRequest, View
from shunter.store.search import JobSearch

SCHEDULES_AT_ONCE = 100
SHOWN_HOLDERS = 50


async def read_schedules(look: SystemLook, asked: PageRequest) -> Data:
    """What is made a job of by itself."""
    before = asked.query.get("after") or None

    async def read() -> Data:
        found = await look.ports.book.listed(asked.scope, before=before, limit=SCHEDULES_AT_ONCE)
        rows = [schedule_row(schedule) for schedule in found.schedules]
        return {"schedules": {row.id: row for row in rows}, "next": found.next}

    data = await look.once(("schedules", asked.scope, before), read)
    return {**data, "may": asked.may}


async def read_schedule(look: SystemLook, asked: PageRequest) -> Data:
    """One schedule: the ticks to come, and a form to change it."""
    namespace = asked.query.get("namespace", asked.scope.namespace)

    async def read() -> Schedule:
        try:
            return await look.ports.book.found(asked.scope, asked.id, namespace)
        except ScheduleError as error:
            raise HttpRefusal(404, str(error), field="id") from None

    schedule = await look.once(("schedule", asked.scope, asked.id, namespace), read)
    return {
        "schedule": schedule,
        "row": schedule_row(schedule),
        "ticks": ticks_of(schedule, MORE_TICKS),
        "form": fields_of(schedule),
        "overlaps": list(Overlap),
        "may": asked.may,
    }


async def read_limits(look: SystemLook, asked: PageRequest) -> Data:
    """Which types are limited, and who holds places."""
    limits = await look.limits()
    return {
        "limits": {name: (name, it, await _holders(look, name)) for name, it in limits.items()},
        "shown": SHOWN_HOLDERS,
        "may": asked.may,
    }


async def read_limit(look: SystemLook, asked: PageRequest) -> Data:
    """The limits of one type, to be changed."""
    if not is_name(asked.id):
        raise HttpRefusal(404, "no type can have that name", field="id")
    found = (await look.limits()).get(asked.id)
    return {
        "type": asked.id,
        "record": found or LimitsRecord(),
        "holders": await _holders(look, asked.id),
        "may": asked.may,
    }


async def _holders(look: SystemLook, job_type: str) -> list[Job]:
    wanted = JobSearch(status=Status.IN_PROGRESS, type=job_type, limit=SHOWN_HOLDERS)
    return (await look.search(wanted)).jobs


SCHEDULES = View(
    name="schedules",
    path="/schedules",
    title="Schedules",
    opening=Action.SEE_JOBS,
    read=read_schedules,
    regions=("pager",),
    lists={"schedules": "schedule_row"},
    is_for_all=True,
)
SCHEDULE = View(
    name="schedule",
    path="/schedules/{id}",
    title="Schedule",
    opening=Action.SEE_JOBS,
    read=read_schedule,
    regions=("head", "coming"),
    is_in_menu=False,
    is_for_all=True,
)
LIMITS = View(
    name="limits",
    path="/limits",
    title="Limits",
    opening=Action.SEE_SYSTEM,
    read=read_limits,
    regions=("summary",),
    lists={"limits": "limit_row"},
)
LIMIT = View(
    name="limit",
    path="/limits/{id}",
    title="Limits",
    opening=Action.SEE_SYSTEM,
    read=read_limit,
    regions=("counting", "places"),
    is_in_menu=False,
)
