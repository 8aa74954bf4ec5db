"""How numbers are shown."""

from __future__ import annotations

import pytest

from shunter.page.figures import (
    bytes_text,
    count_text,
    moment_text,
    rate_text,
    skew_text,
    span_text,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0, "0.0 ms"),
        (0.0032, "3.2 ms"),
        (0.041, "41 ms"),
        (0.25, "0.2 s"),
        (41.4, "41 s"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (3 * 86400 + 4 * 3600, "3 d 4 h"),
        (-2.0, "-2.0 s"),
        (float("inf"), "over 50 min"),
    ],
)
def test_a_span_has_two_figures_at_most(seconds: float | None, text: str) -> None:
    assert span_text(seconds) == text


@pytest.mark.parametrize(
    ("behind", "text"),
    [
        (None, "–"),
        (0.4, "the same"),
        (-0.9, "the same"),
        (30.0, "30 s behind"),
        (-62, "1 min 2 s ahead"),
    ],
)
def test_a_clock_is_compared_with_ours(behind: float | None, text: str) -> None:
    assert skew_text(behind) == text


def test_counts_rates_and_sizes_are_short() -> None:
    assert [count_text(0), count_text(12345), count_text(10, most=10)] == ["0", "12,345", "10+"]
    assert [rate_text(0), rate_text(0.05), rate_text(4.26), rate_text(12345.6)] == [
        "0 /s", "3.0 /min", "4.3 /s", "12,346 /s",
    ]  # fmt: skip
    assert [bytes_text(0), bytes_text(3400), bytes_text(16_000_000)] == ["0 B", "3.4 kB", "16 MB"]


@pytest.mark.parametrize("at", [1e300, -1e300, float("nan"), float("inf")])
def test_a_time_beyond_all_calendars_is_shown_as_it_is(at: float) -> None:
    assert moment_text(at) == f"{at:g}"
