"""What a dispatcher did in a minute, from counters that are there anyway."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from shunter.dispatch.activity import ActivityLog
from shunter.dispatch.activity_writer import ActivityWriter
from shunter.dispatch.timings import Timings
from shunter.model.activity import (
    MOST_ERRORS,
    MOST_TYPES,
    OTHERS,
    ActivityMinute,
    JobCounts,
    Spans,
    activity_in,
    activity_record,
    by_type,
    counts_by_slot,
    errors_in,
    oldest_name,
)
from shunter.model.job import ErrorKind, Execution, Failure, Job, Status
from shunter.model.record import Record, RecordKind
from shunter.store.memory import MemoryStore

MINUTE = 28_333_333
NOW = MINUTE * 60.0


def job(name: str = "j", kind: str = "t", **fields: Any) -> Job:
    return Job(id=name, type=kind, created=NOW, updated=NOW, **fields)


def failed(name: str, message: str, kind: str = "t") -> Job:
    return job(name, kind, status=Status.FAILED, error=Failure(ErrorKind.EXCEPTION, message))


def test_counts_go_into_the_slot_of_their_time() -> None:
    log, counters = ActivityLog("d-1"), Counter(jobs_accepted=3)
    log.minute(counters, Timings(), workers=1, now=NOW + 1)
    counters.update(jobs_accepted=2, jobs_completed=4)
    found = log.minute(counters, Timings(), workers=1, now=NOW + 25)

    assert [it.accepted for it in found.slots] == [3, 0, 2, 0, 0, 0]
    assert [it.completed for it in found.slots] == [0, 0, 4, 0, 0, 0]
    counters.update(jobs_failed=1)
    following = log.minute(counters, Timings(), workers=1, now=NOW + 61)
    assert following.minute == MINUTE + 1
    assert following.slots[0] == JobCounts(failed=1)


def test_waits_and_runs_are_what_histograms_have_gained() -> None:
    log, timings = ActivityLog("d-1"), Timings()
    ran = job(status=Status.COMPLETED, execution=Execution(started=NOW + 0.5, ended=NOW + 2.5))
    for _ in range(2):
        timings.ran(ran)
        timings.ended(ran)
        found = log.minute(Counter(), timings, workers=0, now=NOW + 3)
    activity = found.types["t"]
    assert (activity.waits.count, activity.runs.count) == (2, 2)
    assert activity.runs.mean == pytest.approx(2.0)
    assert activity.runs.quantile(0.5) == 3.0
    assert log.minute(Counter(), timings, workers=0, now=NOW + 70).types == {}


def test_errors_are_counted_together_and_bounded() -> None:
    log = ActivityLog("d-1")
    for number in range(100):
        log.job_failed(failed(f"a-{number}", "disk full"), now=NOW + number)
        log.job_failed(failed(f"b-{number}", f"unlike {number}"), now=NOW)
    found = log.minute(Counter(), Timings(), workers=0, now=NOW)

    assert len(found.errors) == MOST_ERRORS
    first = errors_in([found])[0]
    assert (first.error, first.count, first.job_id) == ("exception: disk full", 100, "a-99")
    assert sum(error.count for error in found.errors) == 200
    assert found.types["t"].failed == 200


def test_types_are_bounded() -> None:
    log = ActivityLog("d-1")
    for number in range(MOST_TYPES + 20):
        log.job_failed(failed("j", "x", kind=f"type-{number:03}"), now=NOW)
    types = log.minute(Counter(), Timings(), workers=0, now=NOW).types
    assert len(types) == MOST_TYPES + 1
    assert types[OTHERS].failed == 20


def test_minutes_of_all_dispatchers_add_up() -> None:
    slots = (JobCounts(1, 2), *[JobCounts()] * 5)
    minutes = [
        ActivityMinute(dispatcher_id=name, minute=MINUTE, slots=slots) for name in ("d-1", "d-2")
    ]
    line = counts_by_slot(minutes, now=NOW + 30)
    assert len(line) == 360
    assert line[-4] == JobCounts(2, 4)
    assert sum(it.accepted for it in line) == 2
    assert counts_by_slot(minutes, now=NOW + 7200) == [JobCounts()] * 360
    assert by_type([]) == {}


def test_a_quantile_is_the_bound_that_holds_it() -> None:
    assert Spans().quantile(0.5) is None
    spans = Spans((0, 3, 0, 1), 1.0)
    assert (spans.quantile(0.5), spans.quantile(0.95)) == (0.003, 0.03)
    assert Spans((0,) * 14 + (1,)).quantile(0.5) == float("inf")


def test_what_another_version_wrote_hides_no_others() -> None:
    good = ActivityMinute(dispatcher_id="d", minute=1)
    odd = Record(kind=RecordKind.ACTIVITY, name="x", document=b'{"minute": "soon"}')
    assert activity_in([odd, activity_record(good, 1)]) == [good]
    assert oldest_name(NOW) < good.name.replace("0000000001", f"{MINUTE:010d}")


def test_a_minute_is_written_when_it_has_news() -> None:
    async def story() -> None:
        store, writer = MemoryStore(), ActivityWriter()
        await store.open()
        log, counters = ActivityLog("d-1"), Counter[str]()

        async def write(now: float) -> int:
            minute = log.minute(counters, Timings(), workers=0, now=now)
            await writer.write(store, minute)
            found = await store.records(RecordKind.ACTIVITY, names=[minute.name])
            return found[0].revision

        log.took_turn(0.1, 0.05)
        assert await write(NOW) == 1
        log.took_turn(0.1, None)
        assert await write(NOW + 5) == 1
        counters["jobs_accepted"] += 1
        assert await write(NOW + 10) == 2
        [record] = await store.records(RecordKind.ACTIVITY)
        [minute] = activity_in([record])
        assert (minute.turns.count, minute.commits.count) == (2, 1)
        writer = ActivityWriter()  # as after an answer that was lost
        counters["jobs_accepted"] += 1
        assert await write(NOW + 15) == 2
        assert await write(NOW + 20) == 3

    asyncio.run(story())
