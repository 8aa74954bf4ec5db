"""Spans and numbers as people read them. Pure."""

from __future__ import annotations

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"))


def span_of(seconds: float | None) -> str:
    """Return a span with two or three digits that count: 4.2 ms, 13 s, 5 min."""
    if seconds is None:
        return "–"
    if seconds <= 0:
        return "0 s"
    size, unit = next((each for each in _UNITS if seconds >= each[0]), (1e-6, "µs"))
    value = seconds / size
    if value >= 10 or value == round(value):
        return f"{value:.0f} {unit}"
    return f"{value:.1f} {unit}"


def share_of(part: int, whole: int) -> str:
    """Return a part in per cent; what is there at all is never 0 %."""
    if not part or not whole:
        return "0 %"
    per_cent = 100 * part / whole
    return f"{per_cent:.0f} %" if per_cent >= 10 else f"{max(per_cent, 0.1):.1f} %"
