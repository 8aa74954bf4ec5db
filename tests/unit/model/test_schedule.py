"""What becomes of a schedule's ticks, and of schedules that are put, paused and declared."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shunter.model.schedule import (
    MAX_PAYLOAD_BYTES,
    Declaration,
    Overlap,
    Schedule,
    ScheduleDraft,
    ScheduleTerms,
    TickDecision,
    decide,
    declared,
    draft_faults,
    due,
    inserted,
    paused,
    put,
    resumed,
    tick_job,
)
from shunter.model.submission import Submission
from shunter.model.timing import Cron, Every, Timing
from shunter.model.unique import Unique

NOW = 1_700_000_000.0 - 1_700_000_000.0 % 60
MINUTE = 60.0


def draft(timing: Timing = Every(MINUTE), **terms: Any) -> ScheduleDraft:  # noqa: B008
    return ScheduleDraft(
        terms=ScheduleTerms(timing=timing, **terms), job=Submission("", "report", b"\xc0")
    )


def schedule(**terms: Any) -> Schedule:
    """Return a schedule of each minute whose next tick is now."""
    made = put(None, "reports", draft(**terms), namespace="", now=NOW - 1)
    assert made.next == NOW
    return made


def decided(it: Schedule, at: float, unfinished: Collection[str] = ()) -> TickDecision:
    known = replace(it, unfinished=tuple(unfinished))
    return decide(known, unfinished=set(unfinished), now=at)


def minutes(decision: TickDecision) -> list[int]:
    return [round((tick - NOW) / MINUTE) for tick in decision.ticks]


# ---- ticks


def test_a_tick_that_has_come_is_a_job_and_the_next_one_follows() -> None:
    before, after = decided(schedule(), NOW - 0.5), decided(schedule(), NOW)

    assert (before.ticks, before.schedule.next) == ((), NOW)
    assert (after.ticks, after.schedule.next, after.schedule.last) == ((NOW,), NOW + MINUTE, NOW)


def test_nothing_is_written_where_nothing_has_come() -> None:
    known = replace(schedule(), unfinished=("j1",))

    assert decide(known, unfinished=set(), now=NOW - 1).schedule is known


def test_the_job_of_a_tick_is_the_same_whoever_makes_it() -> None:
    one, other = (tick_job(schedule(), NOW, job_id=it) for it in ("a", "b"))

    assert one.unique_key == other.unique_key == "schedule/reports/2023-11-14T22:13:00Z"
    assert one.scheduled == NOW
    assert (one.type, one.payload, one.reply) == ("report", b"\xc0", False)


def test_after_an_outage_as_much_is_made_up_for_as_was_asked_for() -> None:
    late = NOW + 3 * 3600
    found = decide(schedule(overlap=Overlap.ALL, catch_up=3600), unfinished=(), now=late, most=500)

    assert minutes(found) == list(range(120, 181))
    assert found.missed
    assert found.schedule.next == late + MINUTE


def test_a_tick_that_is_a_moment_late_is_made_up_for_without_asking() -> None:
    assert minutes(decided(schedule(catch_up=0), NOW + 59)) == [0]
    assert minutes(decided(schedule(catch_up=0), NOW + 119)) == [1]


def test_ticks_beyond_what_is_decided_at_once_follow() -> None:
    known, found = schedule(overlap=Overlap.ALL, catch_up=86400), list[int]()
    for _ in range(10):
        decision = decide(known, unfinished=(), now=NOW + 600 * MINUTE, most=100)
        found += minutes(decision)
        known = decision.schedule

    assert found == list(range(601))


@pytest.mark.parametrize(
    ("overlap", "unfinished", "made", "waiting", "cancelled", "skipped"),
    [
        (Overlap.SKIP, (), [0], None, (), 2),
        (Overlap.SKIP, ("j1",), [], None, (), 3),
        (Overlap.ONE, (), [0], 1, (), 1),
        (Overlap.ONE, ("j1",), [], 0, (), 2),
        (Overlap.ALL, (), [0, 1, 2], None, (), 0),
        (Overlap.ALL, ("j1",), [0, 1, 2], None, (), 0),
        (Overlap.CANCEL, (), [2], None, (), 2),
        (Overlap.CANCEL, ("j1",), [2], None, ("j1",), 2),
    ],
)
def test_what_overlap_does_with_three_ticks(
    overlap: Overlap,
    unfinished: tuple[str, ...],
    made: list[int],
    waiting: int | None,
    cancelled: tuple[str, ...],
    skipped: int,
) -> None:
    found = decided(schedule(overlap=overlap), NOW + 2 * MINUTE, unfinished)

    assert minutes(found) == made
    assert found.schedule.waiting == (None if waiting is None else NOW + waiting * MINUTE)
    assert (found.cancelled, found.skipped) == (cancelled, skipped)


def test_a_tick_that_waits_is_a_job_once_the_one_before_it_has_ended() -> None:
    waiting = replace(schedule(overlap=Overlap.ONE), waiting=NOW - MINUTE, unfinished=("j1",))

    still = decide(waiting, unfinished={"j1"}, now=NOW - 30)
    ended = decide(waiting, unfinished=set(), now=NOW - 30)

    assert still.schedule is waiting
    assert minutes(ended) == [-1]
    assert (ended.schedule.waiting, ended.schedule.next, ended.skipped) == (None, NOW, 0)


def test_jobs_that_were_made_are_remembered_where_overlap_matters() -> None:
    for overlap in Overlap:
        found = decided(schedule(overlap=overlap), NOW, ("j1",))
        kept = inserted(found, ["j2"]).unfinished

        assert kept == (() if overlap is Overlap.ALL else ("j1", "j2"))


@given(st.sampled_from(Overlap), st.lists(st.floats(0, 400), max_size=20), st.data())
def test_every_tick_is_made_waits_or_is_counted_as_skipped(
    overlap: Overlap, gaps: list[float], data: st.DataObject
) -> None:
    known, now, made, skipped = schedule(overlap=overlap, catch_up=1e6), NOW, 0, 0
    jobs: set[str] = set()
    for gap in gaps:
        now += gap
        jobs = {it for it in jobs if data.draw(st.booleans())}
        found = decide(known, unfinished=jobs, now=now)
        made, skipped = made + len(found.ticks), skipped + found.skipped
        fresh = {f"j{tick}" for tick in found.ticks}
        jobs |= fresh
        known = inserted(found, sorted(fresh))

        if overlap in (Overlap.SKIP, Overlap.ONE):
            assert len(known.unfinished) <= 1
    come = sum(NOW + MINUTE * at <= now for at in range(200)) if gaps else 0
    assert made + skipped + (known.waiting is not None) == come


def test_a_tick_with_jitter_is_due_later_and_stays_itself() -> None:
    known = schedule(jitter=30.0)
    at = due(known)

    assert at is not None
    assert NOW < at < NOW + 30
    assert decided(known, at - 0.01).ticks == ()
    assert decided(known, at).ticks == (NOW,)


# ---- what is put, paused, resumed


def test_a_schedule_that_is_put_again_keeps_its_ticks() -> None:
    known = replace(schedule(), last=NOW - MINUTE, unfinished=("j1",), error="x")
    again = put(known, "reports", draft(overlap=Overlap.ONE), namespace="", now=NOW + 5)

    assert (again.next, again.last, again.unfinished) == (NOW, NOW - MINUTE, ("j1",))
    assert (again.terms.overlap, again.error) == (Overlap.ONE, "")


def test_another_timing_counts_from_now_on() -> None:
    again = put(schedule(), "reports", draft(Every(7)), namespace="", now=NOW + 500)

    assert again.next is not None
    assert NOW + 500 < again.next <= NOW + 507


def test_a_pause_leaves_ticks_out() -> None:
    idle = paused(schedule(), now=NOW)

    assert due(idle) is None
    assert decide(idle, unfinished=(), now=NOW + 900).ticks == ()
    assert resumed(idle, now=NOW + 900.5).next == NOW + 960
    assert resumed(schedule(), now=NOW) == schedule()


def test_a_tick_that_was_never_comes_again_though_a_clock_is_behind() -> None:
    ahead = decided(schedule(), NOW + 50).schedule

    assert resumed(paused(ahead, now=NOW), now=NOW - 30).next == NOW + MINUTE


def test_a_schedule_may_be_put_as_paused_and_stays_so() -> None:
    idle = put(None, "a", replace(draft(), is_paused=True), namespace="", now=NOW)
    again = put(idle, "a", draft(Every(5)), namespace="", now=NOW)
    going = put(again, "a", replace(draft(), is_paused=False), namespace="", now=NOW)

    assert (idle.next, again.next) == (None, None)
    assert (going.is_paused, going.next) == (False, NOW + MINUTE)


# ---- what apps declare


def declaration(started: float, timing: Timing = Every(MINUTE), by: str = "w1") -> Declaration:  # noqa: B008
    terms = ScheduleTerms(timing=timing)
    return Declaration(type="a", terms=terms, payload=b"\xc0", worker_id=by, started=started)


def test_what_an_app_declares_becomes_a_schedule_of_that_name() -> None:
    made = declared(None, declaration(5.0), now=NOW)

    assert (made.name, made.job.type, made.next) == ("a", "a", NOW + MINUTE)
    assert (made.declared, made.declared_by) == (5.0, "w1")


def test_of_two_declarations_that_of_the_later_process_counts() -> None:
    made = declared(None, declaration(5.0), now=NOW)
    newer = declared(made, declaration(6.0, Cron("0 8 * * *"), "w2"), now=NOW)
    older = declared(newer, declaration(5.5), now=NOW)

    assert (newer.terms.timing, newer.declared_by) == (Cron("0 8 * * *"), "w2")
    assert older is newer


def test_what_a_client_has_put_is_not_declared_away() -> None:
    made = put(None, "a", draft(), namespace="", now=NOW)

    assert declared(made, declaration(5.0, Every(5)), now=NOW) is made


def test_a_declaration_does_not_end_a_pause() -> None:
    idle = paused(declared(None, declaration(5.0), now=NOW), now=NOW)
    newer = declared(idle, declaration(6.0, Every(5)), now=NOW)

    assert (newer.is_paused, newer.next) == (True, None)


# ---- what is wrong


@pytest.mark.parametrize(
    ("name", "wrong", "field"),
    [
        ("no name", draft(), "name"),
        ("", draft(), "name"),
        ("a", draft(Every(0)), "every.seconds"),
        ("a", draft(overlap="some"), "overlap"),
        ("a", draft(catch_up=-1), "catch_up"),
        ("a", draft(catch_up=float("nan")), "catch_up"),
        ("a", draft(jitter=1e9), "jitter"),
        ("a", draft(jitter="5"), "jitter"),
        ("a", replace(draft(), job=Submission("", "no type", b"\xc0")), "type"),
        ("a", replace(draft(), job=Submission("", "final-failure/a", b"\xc0")), "type"),
        ("a", replace(draft(), job=Submission("", "a", b"\xc0", run="two words")), "run"),
        ("a", replace(draft(), job=Submission("", "a", b"x" * (MAX_PAYLOAD_BYTES + 1))), "payload"),
        ("a", replace(draft(), job=Submission("", "a", b"\xc0", delay=5)), "delay"),
        ("a", replace(draft(), job=Submission("", "a", b"\xc0", unique_key="k")), "unique_key"),
        ("a", replace(draft(), job=Submission("", "a", b"\xc0", unique=Unique("k"))), "unique"),
        ("a", replace(draft(), job=Submission("", "a", b"\xc0", timeout=-1)), "timeout"),
    ],
)
def test_what_can_be_no_schedule_is_refused_by_field(
    name: str, wrong: ScheduleDraft, field: str
) -> None:
    found, reason = next(draft_faults(name, wrong))

    assert found == field
    assert ";" in reason


def test_a_good_schedule_has_no_fault() -> None:
    assert list(draft_faults("reports/daily", draft(jitter=5, catch_up=0))) == []
