"""Ticks become jobs, each of them one, whoever dies and whatever clocks show."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from long_runs import IS_LONG
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.dispatch.schedule_records import (
    NOTES_KEPT,
    announce,
    change_schedule,
    find_records,
    read_edition,
    remove_schedule,
    schedule_in,
)
from shunter.model.job import Status
from shunter.model.record import Record, RecordKind
from shunter.model.schedule import Overlap, Schedule, paused
from shunter.model.scope import EVERYTHING
from shunter.model.timing import Cron, Every, ticks_between
from shunter.testing.finish import finish
from unit.dispatch.schedule_world import ScheduleWorld

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
YEAR = 365 * 86400.0
TIMINGS = {
    "nightly": Cron("30 2 * * *", tz="Europe/Berlin"),
    "shift": Cron("0 */8 * * *", tz="America/New_York"),
    "often": Every(7 * 3600.0),
}


def stored(world: ScheduleWorld, name: str) -> Schedule:
    return schedule_in(finish(find_records(world.store, [f"/{name}"]))[f"/{name}"])


@pytest.mark.parametrize("seed", range(200 if IS_LONG else 3))
def test_in_a_year_of_deaths_each_tick_is_one_job(seed: int) -> None:
    world = ScheduleWorld(seed, now=START, deaths=0.02)
    for name, timing in TIMINGS.items():
        world.put(name, timing, catch_up=86400.0, jitter=float(seed % 3))
    world.run(START + YEAR, outage=6 * 3600.0)
    world.deaths = 0.0
    world.run(world.now + 90000)

    found = world.ticks()
    assert world.died > 200
    assert set(found.values()) == {1}
    for name, timing in TIMINGS.items():
        expected = {
            (name, tick) for tick in ticks_between(timing, START + 1, START + YEAR, most=9999)
        }
        assert expected <= found.keys()
    assert sum(name == "nightly" and (at or 0) < START + YEAR for name, at in found) == 365


def test_after_three_hours_without_dispatchers_one_hour_is_made_up_for() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    world.put("often", Every(60), catch_up=3600.0)
    world.run(START + 610)
    before = len(world.ticks())
    world.now += 3 * 3600.0
    world.run(world.now + 30)

    made = sorted(at for _, at in world.ticks() if at is not None)
    assert before == 10
    assert len(made) == 10 + 60
    assert made[-1] - made[10] == 59 * 60
    assert world.nodes[0].dispatcher.counters["ticks_missed"] == 1


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [("skip", [1]), ("one", [1]), ("cancel", [5]), ("all", [1, 2, 3, 4, 5])],
)
def test_while_nobody_works_jobs_pile_up_as_overlap_has_it(
    overlap: str, expected: list[int]
) -> None:
    world = ScheduleWorld(1, now=START, nodes=2)
    world.put("a", Every(60), overlap=Overlap(overlap))
    world.run(START + 5 * 60 + 20, every=10.0)

    jobs = [job for job in world.store._jobs.values() if not job.status.is_final]
    assert [round(((job.scheduled or 0) - START) / 60) for job in jobs] == expected
    assert stored(world, "a").waiting == (START + 120 if overlap == "one" else None)


def test_overlap_cancels_also_what_a_dispatcher_made_that_died_before_it_moved_on() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    world.put("a", Every(60), overlap=Overlap.CANCEL)
    (node,) = world.nodes
    node.step()
    world.now = START + 60.0
    finish(node.ticks.sweep())
    finish(node.dispatcher.turn())  # and there it ends
    world.nodes = []
    world.now = START + 125.0
    world.nodes = [world._node()]
    world.nodes[0].step()

    found = {job.scheduled: job.status for job in world.store._jobs.values()}
    assert found == {START + 60: Status.CANCELLED, START + 120: Status.QUEUED}
    world.nodes[0].step()
    assert [job.status for job in world.store._jobs.values()].count(Status.QUEUED) == 1


def test_a_tick_that_waits_becomes_a_job_when_the_one_before_it_has_ended() -> None:
    world = ScheduleWorld(1, now=START, nodes=2)
    world.put("a", Every(3600), overlap=Overlap.ONE)
    world.run(START + 2 * 3600 + 30, every=600.0)
    (first,) = world.store._jobs
    world.nodes[0].dispatcher.cancel([first], lambda _: None)
    world.run(world.now + 5, every=1.0)

    assert [job.scheduled for job in world.store._jobs.values()] == [START + 3600, START + 7200]
    assert stored(world, "a").waiting is None


def test_a_tick_is_left_to_one_dispatcher_for_a_moment_and_no_longer() -> None:
    world = ScheduleWorld(1, now=START, nodes=3)
    names = frozenset(node.dispatcher.id for node in world.nodes)
    for node in world.nodes:
        node.dispatcher.state.others = names - {node.dispatcher.id}
    world.put("a", Every(60))
    world.run(START + 610, every=1.0)
    made = [node.dispatcher.counters["ticks_made"] for node in world.nodes]
    assert sorted(made) == [0, 0, 10]

    del world.nodes[made.index(10)]  # the others still take it for alive
    world.run(START + 900.9, every=1.0)
    assert len(world.ticks()) == 15


def test_who_pauses_or_removes_a_schedule_is_heard_before_its_next_tick() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    for name in ("a", "b", "c"):
        world.put(name, Every(60))
    world.run(START + 30)
    now = world.now
    finish(change_schedule(world.store, "", "a", lambda it: paused(it, now=now) if it else it))  # type: ignore[arg-type, return-value]
    finish(remove_schedule(world.store, "", "b"))
    world.run(START + 100)

    assert {name for name, _ in world.ticks()} == {"c"}
    assert set(world.nodes[0].ticks.timetable) == {"/a", "/c"}


def test_what_is_put_is_heard_within_seconds() -> None:
    world = ScheduleWorld(1, now=START, nodes=2)
    world.run(START + 10, every=1.0)
    world.put("a", Every(5))
    world.run(START + 21, every=1.0)

    assert sorted(at for _, at in world.ticks() if at) == [START + 15, START + 20]


def test_a_tick_that_waits_is_known_to_others_than_who_let_it_wait() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    world.put("a", Every(3600), overlap=Overlap.ONE)
    world.run(START + 7000, every=100.0)
    world.nodes.append(world._node())
    world.nodes[1].step()  # it has read all, and nothing waits
    (first,), other = world.store._jobs, world.nodes.pop()
    world.run(START + 7202, every=1.0)
    world.nodes = [other]
    world.run(START + 7205, every=1.0)
    other.dispatcher.cancel([first], lambda _: None)
    world.run(START + 7210, every=1.0)

    assert len(world.ticks()) == 2


def test_a_zone_that_one_host_does_not_know_stops_no_other_schedule() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    for name in ("a", "b"):
        world.put(name, Every(60))

    def elsewhere(it: Schedule | None) -> Schedule:
        assert it is not None
        return replace(it, terms=replace(it.terms, timing=Cron("* * * * *", tz="Mars/Base")))

    finish(change_schedule(world.store, "", "a", elsewhere))
    world.run(START + 130)

    assert [name for name, _ in world.ticks()] == ["b", "b"]
    assert "'Mars/Base' is no zone" in world.told[0][1]


def test_a_change_that_was_not_announced_is_found_by_reading_all() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    world.put("a", Every(3600))
    world.run(START + 10)
    record = finish(find_records(world.store, ["/a"]))["/a"]
    text = (record.document or b"").replace(b'"a"', b'"z"')
    finish(world.store.swap_records([replace(record, name="/z", revision=1, document=text)]))
    world.run(START + 290, every=1.0)
    assert "/z" not in world.nodes[0].ticks.timetable
    world.run(START + 320, every=1.0)
    assert "/z" in world.nodes[0].ticks.timetable


def test_an_edition_says_what_changed_or_that_too_much_has() -> None:
    world = ScheduleWorld(1, now=START, nodes=0)
    for at in range(3):
        finish(announce(world.store, [f"/{at}"]))
    edition = finish(read_edition(world.store))

    assert edition.since(3) == []
    assert edition.since(1) == ["/1", "/2"]
    assert edition.since(4) is None  # of another store
    finish(announce(world.store, ["/4", "/5"]))
    assert finish(read_edition(world.store)).since(3) is None
    for at in range(NOTES_KEPT):
        finish(announce(world.store, [f"/{at}"]))
    assert finish(read_edition(world.store)).since(3) is None
    assert finish(read_edition(world.store)).since(4) is not None


def test_a_schedule_that_cant_be_read_stops_no_other_and_can_be_removed() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    world.put("a", Every(60))
    broken = Record(kind=RecordKind.SCHEDULE, name="/b", document=b'{"name":"b","terms":5}')
    finish(world.store.swap_records([broken]))
    world.run(START + 130)
    book = ScheduleBook(world.nodes[0].dispatcher, new_id=world.new_id, submit=None)  # type: ignore[arg-type]

    assert len(world.ticks()) == 2
    assert {name for name, _ in world.told} == {"/b"}
    assert [it.name for it in finish(book.listed(EVERYTHING)).schedules] == ["a"]
    finish(book.remove(EVERYTHING, "b"))


def test_a_tick_that_is_refused_is_told_once_and_the_next_one_tried() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    dispatcher = world.nodes[0].dispatcher
    intake = replace(dispatcher.rules.intake, refuse_unknown_types=True)
    dispatcher.state.rules = replace(dispatcher.rules, intake=intake)
    world.put("a", Every(60))
    world.run(START + 130)

    assert stored(world, "a").next == START + 180
    assert "no worker does" in stored(world, "a").error
    (told,) = world.told
    assert "can't be made jobs" in told[1]


def test_a_job_of_a_tick_that_was_made_before_a_change_counts() -> None:
    world = ScheduleWorld(1, now=START, nodes=1)
    world.put("a", Every(60), overlap=Overlap.SKIP)
    world.run(START + 59)
    node = world.nodes[0]
    world.now = START + 60
    finish(node.ticks.sweep())
    finish(node.dispatcher.turn())  # and here it dies
    world.nodes = [world._node()]

    def other_payload(it: Schedule | None) -> Schedule:
        assert it is not None
        return replace(it, job=replace(it.job, payload=b"\x01"))

    finish(change_schedule(world.store, "", "a", other_payload))
    world.run(START + 70, every=1.0)

    (job,) = world.store._jobs
    assert stored(world, "a").unfinished == (job,)
    assert stored(world, "a").next == START + 120
