"""When ticks come: calendars, clock changes, intervals, and what can't be a timing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model.timing import (
    Cron,
    Every,
    next_tick,
    offset,
    tick_text,
    ticks_between,
    timing_faults,
)

BERLIN = ZoneInfo("Europe/Berlin")
SPRING, AUTUMN = datetime(2026, 3, 29, tzinfo=BERLIN), datetime(2026, 10, 25, tzinfo=BERLIN)


def on(day: datetime, text: str, days: int = 1) -> list[str]:
    """Return what a clock in Berlin shows at each tick of a day."""
    begin, end = day.timestamp(), (day + timedelta(days=days)).timestamp()
    ticks = ticks_between(Cron(text, tz="Europe/Berlin"), begin, end, most=10_000)
    return [datetime.fromtimestamp(tick, BERLIN).strftime("%H:%M%z") for tick in ticks]


def test_a_daily_tick_in_berlin_comes_365_times_a_year_over_both_clock_changes() -> None:
    ticks = on(datetime(2026, 1, 1, tzinfo=BERLIN), "30 2 * * *", days=365)

    assert len(ticks) == 365
    assert {tick[:5] for tick in ticks} == {"02:30", "03:00"}


def test_an_hour_that_is_missing_has_one_tick_right_after_it() -> None:
    assert on(SPRING, "30 2 * * *") == ["03:00+0200"]
    assert on(SPRING, "*/15 2 * * *") == ["03:00+0200"]
    assert on(SPRING, "0,30 2,3 * * *") == ["03:00+0200", "03:30+0200"]


def test_an_hour_that_comes_twice_has_its_ticks_once() -> None:
    assert on(AUTUMN, "30 2 * * *") == ["02:30+0200"]
    assert on(AUTUMN, "0,30 2 * * *") == ["02:00+0200", "02:30+0200"]
    assert on(AUTUMN, "0 */2 * * *")[:3] == ["00:00+0200", "02:00+0200", "04:00+0100"]


def test_the_second_time_that_a_clock_shows_an_hour_its_tick_is_over() -> None:
    again = datetime(2026, 10, 25, 2, 10, tzinfo=BERLIN, fold=1).timestamp()
    tick = next_tick(Cron("30 2 * * *", tz="Europe/Berlin"), again)

    assert tick == datetime(2026, 10, 26, 2, 30, tzinfo=BERLIN).timestamp()


def test_ticks_of_every_hour_go_by_the_time_that_passes() -> None:
    for day, hours in ((SPRING, 23), (AUTUMN, 25)):
        begin = day.timestamp()
        ticks = ticks_between(
            Cron("30 * * * *", tz="Europe/Berlin"), begin, begin + hours * 3600, most=100
        )

        assert len(ticks) == hours
        assert {later - tick for tick, later in pairwise(ticks)} == {3600.0}


def test_weekdays_are_those_of_the_place() -> None:
    friday_evening = datetime(2026, 3, 27, 20, tzinfo=BERLIN).timestamp()
    tick = next_tick(Cron("0 8 * * 1-5", tz="Europe/Berlin"), friday_evening)

    assert tick is not None
    assert datetime.fromtimestamp(tick, BERLIN) == datetime(2026, 3, 30, 8, tzinfo=BERLIN)


@given(st.floats(1, 86400).map(lambda s: round(s, 3)), st.floats(0, 4e9))
def test_an_interval_has_one_tick_in_each_of_its_spans(seconds: float, after: float) -> None:
    first = next_tick(Every(seconds), after)
    assert first is not None
    second = next_tick(Every(seconds), first)
    assert second is not None

    assert after - 0.001 < first <= after + seconds + 0.001
    assert abs(second - first - seconds) < 0.001


zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe",
     "Asia/Kolkata", "Pacific/Apia", "America/Sao_Paulo"]
)  # fmt: skip
texts = st.tuples(
    st.sampled_from(["0", "30", "*/20", "5,50", "59"]),
    st.sampled_from(["*", "0", "2", "*/3", "23", "0-4"]),
    st.sampled_from(["*", "1", "29", "L"]),
    st.sampled_from(["*", "3", "10,11"]),
    st.sampled_from(["*", "0", "1-5", "6#1"]),
).map(" ".join)


@given(texts, zones, st.integers(1_000_000_000, 2_000_000_000), st.integers(1, 20))
def test_ticks_only_go_forward_and_any_moment_before_one_leads_to_it(
    text: str, zone: str, after: int, steps: int
) -> None:
    timing, ticks = Cron(text, tz=zone), [float(after)]
    for _ in range(steps):
        tick = next_tick(timing, ticks[-1])
        assert tick is not None
        assert tick > ticks[-1]
        ticks.append(tick)

    before, last = ticks[-2:]
    assert next_tick(timing, (before + last) / 2) == last
    assert next_tick(timing, last - 0.5) == last


def test_a_tick_comes_later_by_what_its_name_draws() -> None:
    drawn = [offset("report", 60.0 * at, 30.0) for at in range(200)]

    assert drawn == [offset("report", 60.0 * at, 30.0) for at in range(200)]
    assert all(0 <= seconds < 30 for seconds in drawn)
    assert min(drawn) < 3
    assert max(drawn) > 27
    assert drawn != [offset("other", 60.0 * at, 30.0) for at in range(200)]
    assert offset("report", 60.0, 0.0) == 0.0


def test_a_tick_is_written_in_one_way() -> None:
    at = datetime(2026, 3, 29, 1, 0, tzinfo=UTC).timestamp()

    assert tick_text(at) == "2026-03-29T01:00:00Z"
    assert tick_text(at + 0.5) == "2026-03-29T01:00:00.500Z"


@pytest.mark.parametrize(
    ("timing", "field", "remedy"),
    [
        (Cron("61 * * * *"), "cron.text", "five fields"),
        (Cron("* * * *"), "cron.text", "4 fields"),
        (Cron("0 0 0 * * *"), "cron.text", "6 fields"),
        (Cron(""), "cron.text", "five fields"),
        (Cron("0 0 30 2 *"), "cron.text", "five fields"),
        (Cron("0 0 * 2 */9#5"), "cron.text", "five fields"),
        (Cron("0 " * 500), "cron.text", "at most 128"),
        (Cron("0 8 * * *", tz="Europe/Berln"), "cron.tz", "tz database"),
        (Cron("0 8 * * *", tz=""), "cron.tz", "tz database"),
        (Cron("0 8 * * *", tz="../../etc/passwd"), "cron.tz", "tz database"),
        (Cron("0 8 * * *", tz="Europe"), "cron.tz", "tz database"),
        (Cron("0 8 * * *", tz="localtime"), "cron.tz", "tz database"),
        (Cron(5), "cron.text", "five fields"),  # type: ignore[arg-type]
        (Every(0), "every.seconds", "1 to"),
        (Every(0.5), "every.seconds", "1 to"),
        (Every(float("nan")), "every.seconds", "1 to"),
        (Every(float("inf")), "every.seconds", "1 to"),
        (Every("30"), "every.seconds", "a number"),  # type: ignore[arg-type]
        ("0 8 * * *", "schedule", "Cron(...)"),
    ],
)
def test_what_is_no_timing_is_refused_by_field_with_a_remedy(
    timing: Any, field: str, remedy: str
) -> None:
    found, reason = next(timing_faults(timing))

    assert found == field
    assert remedy in reason


@pytest.mark.parametrize(
    ("tz", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europa/Berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("utc", "UTC"),
        ("Japn", "Japan"),
    ],
)
def test_a_misspelt_zone_is_refused_with_what_may_be_meant(tz: str, meant: str) -> None:
    ((_, reason),) = timing_faults(Cron("0 8 * * *", tz=tz))

    assert reason.endswith(f"; did you mean {meant!r}?")


@pytest.mark.parametrize(
    "tz", ["", "Mars/Base", "Europe", "GMT+1", "../../etc/passwd", "localtime"]
)
def test_where_no_zone_may_be_meant_none_is_named(tz: str) -> None:
    ((_, reason),) = timing_faults(Cron("0 8 * * *", tz=tz))

    assert "did you mean" not in reason


@pytest.mark.parametrize(
    "timing", [Cron("0 8 * * MON-FRI"), Cron("0 0 29 2 *"), Every(1), Every(2.5)]
)
def test_what_is_a_timing_has_no_fault(timing: Cron | Every) -> None:
    assert list(timing_faults(timing)) == []


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_does_harm(text: str, tz: str) -> None:
    list(timing_faults(Cron(text, tz)))
    list(timing_faults(Cron(f"{text[:4]} * * {text[4:8]} *")))
