"""From when on somebody wants to see something."""

from __future__ import annotations

import pytest

from shunter.errors import FlowError
from shunter.flow.sources.since import parse_since

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOW - 90),
        ("30m", NOW - 1800),
        ("24h", NOW - 86400),
        (" 1.5 d ", NOW - 1.5 * 86400),
        ("2w", NOW - 14 * 86400),
        ("1700000000.5", 1_700_000_000.5),
        ("1970-01-02", 86400.0),
        ("1970-01-01T01:00", 3600.0),
        ("1970-01-01T01:00+01:00", 0.0),
    ],
)
def test_a_moment_is_a_span_back_or_a_date_or_seconds(text: str, moment: float) -> None:
    assert parse_since(text, now=NOW) == moment


@pytest.mark.parametrize("text", ["", "soon", "-1h", "1y", "nan", "inf", "2026-13-01"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(FlowError, match="is no moment; write 90s"):
        parse_since(text, now=NOW)
