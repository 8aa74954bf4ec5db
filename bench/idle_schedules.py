"""What schedules cost a dispatcher while none of them ticks.

A `shunter dispatcher` with its default settings and ten thousand schedules in its store, and one
with none, each on SQLite and on MongoDB, all four at the same time. After they have read them, the
processor time of each is taken as a part of one core. With `--soon`, so many schedules more tick
every minute meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import Any

from bench.stage import Dispatcher, Stage, conclude, say, sizes
from bench.stores import STORES, opened
from shunter.dispatch.schedule_records import announce, record_of
from shunter.model.schedule import Schedule, ScheduleDraft, ScheduleTerms, put
from shunter.model.submission import Submission
from shunter.model.timing import Cron, Every, Timing
from shunter.store.registry import store_for

AT_ONCE = 500
SETTLE_SECONDS = 10.0


def _schedule(name: str, timing: Timing) -> Schedule:
    job = Submission("", "echo", b"\x91\xa5hello")
    draft = ScheduleDraft(terms=ScheduleTerms(timing=timing), job=job)
    return put(None, name, draft, namespace="", now=time.time())


async def _fill(url: str, count: int, soon: int) -> None:
    """Put schedules into a store: most of them for some minute of another month."""
    month = time.gmtime().tm_mon % 12 + 1
    store = store_for(url)
    await store.open()
    schedules = [
        _schedule(f"s{number}", Cron(f"{number % 60} {number % 24} * {month} *"))
        for number in range(count)
    ]
    schedules += [_schedule(f"soon{number}", Every(60.0)) for number in range(soon)]
    for start in range(0, len(schedules), AT_ONCE):
        some = schedules[start : start + AT_ONCE]
        await store.swap_records([record_of(it, 1) for it in some])
    await announce(store, ["", ""])
    await store.close()


def _measure(stage: Stage, count: int, soon: int, seconds: int) -> dict[str, dict[str, Any]]:
    watched: dict[tuple[str, int], Dispatcher] = {}
    with ExitStack() as stack:
        for kind in STORES:
            urls = stack.enter_context(opened(kind, stage))
            for schedules in (0, count):
                name = f"{kind}{schedules}"
                if schedules:
                    asyncio.run(_fill(urls(name), schedules, soon))
                watched[kind, schedules] = Dispatcher(stage, name, urls(name)).ready()
        time.sleep(SETTLE_SECONDS)
        cpu = {key: dispatcher.cpu_seconds() for key, dispatcher in watched.items()}
        began = time.perf_counter()
        for second in range(seconds):
            say("doing nothing", second, seconds)
            time.sleep(1.0)
        took = time.perf_counter() - began
        part = {key: (watched[key].cpu_seconds() - cpu[key]) / took for key in watched}
        memory = {key: watched[key].resident_megabytes() for key in watched}
    return {
        kind: {
            "with_none": part[kind, 0],
            "with_all": part[kind, count],
            "megabytes_with_none": memory[kind, 0],
            "megabytes_with_all": memory[kind, count],
        }
        for kind in STORES
    }


def main() -> None:
    chosen = sizes(__doc__ or "", schedules=10_000, soon=0, seconds=60)
    with Stage() as stage:
        found = _measure(stage, chosen.schedules, chosen.soon, chosen.seconds)
    conclude(schedules=chosen.schedules, soon=chosen.soon, seconds=chosen.seconds, **found)


if __name__ == "__main__":
    main()
