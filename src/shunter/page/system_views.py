"""The views of the whole system: overview, workers, dispatchers."""

from __future__ import annotations

import asyncio

from shunter.model.key import Action
from shunter.model.pause import all_of
from shunter.page import overview
from shunter.page.system_look import COUNTED, SystemLook
from shunter.page.view import Data, PageRequest, View
from shunter.page.worker_rows import worker_rows


async def read_overview(look: SystemLook, asked: PageRequest) -> Data:
    """The whole system at a glance."""
    depths, minutes, workers, presences, pauses = await asyncio.gather(
        look.depths(), look.minutes(), look.workers(), look.presences(), look.pauses()
    )
    now = look.now
    types = overview.type_rows(depths, minutes, workers, pauses)
    dispatchers = overview.dispatcher_rows(presences, minutes, look.skews, now=now)
    return {
        "figures": overview.figures(types, minutes, workers, dispatchers, pauses, now=now),
        "plots": overview.plots(minutes, now=now),
        "types": {row.type: row for row in types},
        "errors": overview.errors(minutes),
        "dispatchers": [row for row in dispatchers if row.is_alive],
        "counted": COUNTED,
        "may": asked.may,
    }


async def read_workers(look: SystemLook, asked: PageRequest) -> Data:
    """Who does jobs, and which."""
    workers, pauses = await asyncio.gather(look.workers(), look.pauses())
    rows = worker_rows(workers, all_of(pauses))
    return {"workers": {row.id: row for row in rows}, "may": asked.may, "pauses": pauses}


async def read_dispatchers(look: SystemLook, asked: PageRequest) -> Data:
    """Who gives jobs out."""
    presences, minutes = await asyncio.gather(look.presences(), look.minutes())
    rows = overview.dispatcher_rows(presences, minutes, look.skews, now=look.now)
    return {"dispatchers": {row.id: row for row in rows}, "own": look.ports.dispatcher.id}


OVERVIEW = View(
    name="overview",
    path="/",
    title="Overview",
    opening=Action.SEE_SYSTEM,
    read=read_overview,
    regions=("totals", "failures", "dispatcher_parts"),
    lists={"types": "type_row"},
    has_plots=True,
)
WORKERS = View(
    name="workers",
    path="/workers",
    title="Workers",
    opening=Action.SEE_SYSTEM,
    read=read_workers,
    regions=("summary",),
    lists={"workers": "worker_row"},
)
DISPATCHERS = View(
    name="dispatchers",
    path="/dispatchers",
    title="Dispatchers",
    opening=Action.SEE_SYSTEM,
    read=read_dispatchers,
    lists={"dispatchers": "dispatcher_row"},
)
