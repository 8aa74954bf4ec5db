"""How numbers, spans and times are written for people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

LEVEL_SECONDS = 1.0
"""Clocks that differ by less count as the same: a word from another host takes a while."""

_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def span_text(seconds: float | None) -> str:
    """Return a span in two figures at most: 3.2 ms, 41 s, 2 min 5 s, 3 d 4 h."""
    if seconds is None:
        return "–"
    if seconds == float("inf"):
        return "over 50 min"
    if seconds < 0:
        return f"-{span_text(-seconds)}"
    if seconds < 0.0995:
        return f"{_figures(seconds * 1000)} ms"
    if seconds < 59.5:
        return f"{_figures(seconds)} s"
    for place, (size, unit) in enumerate(_STEPS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            below, lower = _STEPS[place + 1] if place + 1 < len(_STEPS) else (1.0, "s")
            part = int(rest // below)
            return f"{int(whole)} {unit} {part} {lower}" if part else f"{int(whole)} {unit}"
    return f"{seconds:.0f} s"


def skew_text(behind: float | None) -> str:
    """Return by how much a clock is behind ours, or ahead."""
    if behind is None:
        return "–"
    if abs(behind) < LEVEL_SECONDS:
        return "the same"
    return f"{span_text(abs(behind))} {'behind' if behind > 0 else 'ahead'}"


def count_text(count: float, *, most: int | None = None) -> str:
    """Return a count with its thousands apart; one that was counted no further has a plus."""
    if most is not None and count >= most:
        return f"{most:,}+"
    return f"{count:,.0f}"


def rate_text(per_second: float) -> str:
    """Return a rate: events a second, or a minute where there are few."""
    if per_second == 0:
        return "0 /s"
    if per_second < 0.1:
        return f"{_figures(per_second * 60)} /min"
    return f"{_figures(per_second)} /s" if per_second < 1000 else f"{per_second:,.0f} /s"


def bytes_text(size: int) -> str:
    """Return a size: 512 B, 3.4 kB, 16 MB."""
    for unit, amount in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= amount:
            return f"{_figures(size / amount)} {unit}"
    return f"{size} B"


def moment_text(at: float | None) -> str:
    """Return a time in UTC, as it is read in a log."""
    if at is None:
        return "–"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{at:g}"


def clock_text(at: float | None) -> str:
    """Return the time of day in UTC."""
    return moment_text(at)[-8:]


def machine_time(at: float) -> str:
    """Return a time for programs."""
    return moment_text(at).replace(" ", "T") + "Z"


def _figures(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
