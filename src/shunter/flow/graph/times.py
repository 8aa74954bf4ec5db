"""Times of events: numbers of seconds, or datetimes.

Datetimes are counted in seconds since 1970, in UTC where their zone is known. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.source_line import users_line

Number = int | float
Seconds = Number | timedelta

_BEGINNING = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)


def to_timestamp(time: Any) -> Number:
    """Return a time as a number of seconds; raises TypeError for what is no time."""
    if isinstance(time, datetime):
        zone = time.utcoffset()
        passed = time.replace(tzinfo=None, fold=0) - _BEGINNING
        return (passed if zone is None else passed - zone) / _SECOND
    if isinstance(time, int | float) and not isinstance(time, bool):
        return time
    raise TypeError(f"its time is {time!r}; let it be a number of seconds, or a datetime")


def writer_of(time: Any) -> str:
    """Name the kind of a time, so that moments can be told in the same way."""
    if isinstance(time, datetime):
        return "naive" if time.utcoffset() is None else "aware"
    return "number"


def _aware(moment: Number) -> datetime:
    return _naive(moment).replace(tzinfo=UTC)


def _naive(moment: Number) -> datetime:
    return _BEGINNING + timedelta(seconds=moment)


WRITERS: dict[str, Callable[[Number], Any]] = {
    "number": lambda moment: moment, "naive": _naive, "aware": _aware,
}  # fmt: skip
"""By kind of time: how a moment is told to the user."""


def seconds_of(given: Any, what: str) -> Number:
    """Return what a user gave as seconds, or raise a FlowError."""
    seconds: Any = given / _SECOND if isinstance(given, timedelta) else given
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:
        raise FlowError(
            f"{what} is {given!r}; give seconds or a timedelta, more than 0",
            place=str(users_line()),
        )
    number: Number = seconds
    return number
