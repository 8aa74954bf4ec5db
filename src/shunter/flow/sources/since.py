"""From when on somebody wants to see something: `24h`, a date, or seconds since 1970. Pure."""

from __future__ import annotations

import datetime
import math
import re

from shunter.errors import FlowError

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_since(text: str, *, now: float) -> float:
    """Return a moment in seconds since 1970; a date without a zone is in UTC."""
    written = text.strip()
    if span := _SPAN.fullmatch(written):
        return now - float(span[1]) * _SECONDS[span[2]]
    try:
        moment = float(written)
    except ValueError:
        moment = math.nan
    if math.isfinite(moment):
        return moment
    try:
        date = datetime.datetime.fromisoformat(written)
    except ValueError:
        raise FlowError(
            f"since: {text!r} is no moment; write 90s, 30m, 24h, 7d or 2w, a date such as "
            "2026-01-31T08:00, or seconds since 1970"
        ) from None
    zoned = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
    return zoned.timestamp()
