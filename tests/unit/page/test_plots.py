"""Plots have one set of points: sent as they come, drawn as SVG where there is no script."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from shunter.model.activity import ActivityMinute, Durations, JobCounts, minute_of
from shunter.page import overview
from shunter.page.changes import Snapshot, changes
from shunter.page.plots import Plot, PlotLine, Points, new_points, svg, value_text

NOW = 1_700_000_075.0
BEFORE = Points(100, 10, ((1, 2, 3), (0, 0, 0)))


def test_of_points_only_new_ones_are_sent() -> None:
    after = Points(110, 10, ((2, 3, 4), (0, 0, 1)))
    assert new_points(BEFORE, after) == [130, 10, (4,), (1,)]
    assert new_points(BEFORE, BEFORE) == []


def test_a_point_that_was_corrected_is_sent_with_those_after_it() -> None:
    after = Points(110, 10, ((2, 3, 4), (0, 7, 1)))
    assert new_points(BEFORE, after) == [120, 10, (3, 4), (7, 1)]


@pytest.mark.parametrize(
    "before", [None, Points(1000, 10, BEFORE.columns), Points(0, 10, BEFORE.columns)]
)
def test_all_points_are_sent_to_one_who_has_none_of_them(before: Points | None) -> None:
    assert new_points(before, BEFORE) == BEFORE.since(0)


def test_a_page_that_has_older_points_is_told_what_is_new() -> None:
    before = Snapshot(plots={"a": BEFORE})
    after = Snapshot(plots={"a": Points(110, 10, ((2, 3, 4), (0, 0, 0)))})
    assert changes(before, after) == {"plots": {"a": [130, 10, (4,), (0,)]}}
    assert before.digest != after.digest
    assert before.digest == Snapshot(plots={"a": BEFORE}).digest


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 /s"),
        (0.1, "0.1 /s"),
        (0.01234, "0.0123 /s"),
        (41.27, "41.3 /s"),
        (12345, "12,300 /s"),
        (9876543, "9,880,000 /s"),
    ],
)
def test_a_value_has_three_figures(value: float, text: str) -> None:
    assert value_text(value, "/s") == text


def test_the_last_hour_ends_with_the_last_full_slot() -> None:
    """The slot of now has only begun; one that began in this minute counts where it belongs."""
    slots = (JobCounts(accepted=5), JobCounts(), JobCounts(completed=20, failed=10))
    minute = ActivityMinute(
        dispatcher_id="d",
        minute=minute_of(NOW),
        slots=(*slots, *[JobCounts()] * 3),
        turns=Durations(4, 0.01, 0.005),
    )
    found = overview.plots([minute], now=NOW)
    points = found["throughput"].points
    ended, accepted = points.columns
    minute_start = 60 * minute_of(NOW)

    def at(moment: float) -> int:
        return int(moment - points.start) // points.step

    assert NOW - 20 < points.start + (len(ended) - 1) * points.step <= NOW - 10
    assert (accepted[at(minute_start)], ended[at(minute_start + 20)]) == (0.5, 3.0)
    assert sum(ended) == 3.0
    assert found["failures"].points.columns[0][at(minute_start + 20)] == 60
    turns = found["turns"].points
    assert turns.columns[0][-1] == 2.5
    assert turns.start + 59 * turns.step == minute_start


def test_a_drawn_plot_says_its_last_and_highest_values() -> None:
    lines = (PlotLine("ended", "ended"), PlotLine("accepted", "came in"))
    drawn = svg(Plot("Jobs a second", "/s", lines, Points(0, 10, ((1, 80, 2), (0, 0, 0.5)))))
    picture = ElementTree.fromstring(f"<div>{drawn}</div>")
    label = picture[0].get("aria-label") or ""
    assert "last ended 2 /s, came in 0.5 /s; highest 80 /s" in label
    assert [it.text for it in picture.iter("span") if it.text] == ["100 /s", "00:00", "00:00"]
