"""When something happens again and again: by the calendar of a place, or at a fixed interval.

A tick is a point in time, in seconds since 1970. Which one follows another depends on the timing
alone, so all dispatchers agree on it. Where clocks are changed, a calendar goes by what people see:
of an hour that is missing the first tick comes right after it, once; of one that comes twice
the first counts. Timings of every hour go by the time that passes, so that they neither pause nor
run twice. What reads calendars is imported when there is one: workers' children start quickly.
Pure: `after` is always an argument. Rules: docs/spec/schedules.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from shunter.model.zone_guess import zone_question

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

LEAST_SECONDS = 1.0
MOST_SECONDS = 366 * 86400.0
MOST_CHARACTERS = 128
ALL_HOURS = frozenset(range(24))

CRON_RULE = (
    "five fields, minute hour day month weekday, such as '0 8 * * 1-5' for 8:00 on working days"
)
ZONE_RULE = "a zone of the tz database, such as 'UTC' or 'Europe/Berlin'"


class Cron(Struct, frozen=True, tag="cron", tag_field="kind"):
    """By the calendar: `Cron("0 8 * * 1-5", tz="Europe/Berlin")`, the five fields of cron."""

    text: str
    tz: str = "UTC"


class Every(Struct, frozen=True, tag="every", tag_field="kind"):
    """At a fixed interval: at its multiples since 1970, so that all dispatchers agree."""

    seconds: float


Timing = Cron | Every


def timing_faults(timing: Timing) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a timing: the field, and what was found and what to send."""
    match timing:
        case Cron(str() as text, str() as tz):
            yield from _cron_faults(text, tz)
        case Cron(text, tz):
            yield "cron.text", f"found {text!r} and {tz!r}; send texts: {CRON_RULE}"
        case Every(int() | float() as seconds) if LEAST_SECONDS <= seconds <= MOST_SECONDS:
            return
        case Every(seconds):
            rule = f"{LEAST_SECONDS:g} to {MOST_SECONDS:.0f}"
            yield "every.seconds", f"found {seconds!r}; send a number of seconds, {rule}"
        case _:
            yield "schedule", f"found {timing!r}; send Cron(...) or Every(...)"


def _cron_faults(text: str, tz: str) -> Iterator[tuple[str, str]]:
    from cronsim import CronSim, CronSimError

    if (found := _zone(tz)) is None:
        yield "cron.tz", f"found {tz[:64]!r}; send {ZONE_RULE}{zone_question(tz)}"
    if len(text) > MOST_CHARACTERS:
        yield "cron.text", f"{len(text)} characters; send at most {MOST_CHARACTERS}: {CRON_RULE}"
        return
    if len(text.split()) != 5:
        yield "cron.text", f"found {text!r}, {len(text.split())} fields; send {CRON_RULE}"
        return
    try:
        CronSim(text, datetime(2000, 1, 1))
    except (CronSimError, ValueError) as error:
        yield "cron.text", f"found {text!r} ({str(error).lower()}); send {CRON_RULE}"
        return
    if found is not None and next_tick(Cron(text, tz), 0.0) is None:
        yield "cron.text", f"found {text!r}, which never comes; send {CRON_RULE}"


def next_tick(timing: Timing, after: float) -> float | None:
    """Return the first tick that is later than a point in time; None if there is none ever."""
    match timing:
        case Every(seconds):
            step = round(seconds * 1000)
            return (math.floor(after * 1000 + 0.001) // step + 1) * step / 1000
        case Cron(text, tz):
            return next(_cron_ticks(text, tz, after), None)


def ticks_between(timing: Timing, begin: float, end: float, *, most: int) -> list[float]:
    """Return the ticks from `begin` on and before `end`, at most so many."""
    ticks: list[float] = []
    tick = next_tick(timing, begin - 0.001)
    while tick is not None and tick < end and len(ticks) < most:
        ticks.append(tick)
        tick = next_tick(timing, tick)
    return ticks


def offset(name: str, tick: float, jitter: float) -> float:
    """Return by how much a tick comes later, 0 to `jitter` seconds: the same for everybody."""
    if not jitter:
        return 0.0
    drawn = hashlib.sha256(f"{name}/{tick_text(tick)}".encode()).digest()[:8]
    return jitter * int.from_bytes(drawn) / 2**64


def tick_text(tick: float) -> str:
    """Write a tick for people and for keys: the same text for the same tick."""
    precision = "seconds" if tick == int(tick) else "milliseconds"
    moment = datetime.fromtimestamp(round(tick, 3), UTC)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _cron_ticks(text: str, tz: str, after: float) -> Iterator[float]:
    from cronsim import CronSim

    zone = _zone(tz)
    if zone is None:
        raise ValueError(f"{tz!r} is no zone that is known here; send {ZONE_RULE}")
    begin = datetime.fromtimestamp(math.floor(after), zone)
    simulator = CronSim(text, begin.replace(tzinfo=None))
    if simulator.hours >= ALL_HOURS:
        # With a field of seconds, times pass as they do, whatever clocks on walls show.
        simulator = CronSim(f"0 {text}", begin)
    last = after
    for seen in simulator:
        tick = _moment(seen, zone)
        if tick > last:
            yield tick
            last = tick


def _moment(seen: datetime, zone: ZoneInfo) -> float:
    """Return when a clock on the wall shows that for the first time, or would have by then."""
    moment = seen.replace(tzinfo=zone, fold=0) if seen.tzinfo is None else seen
    while seen.tzinfo is None and _is_missing(moment, zone):
        moment += timedelta(minutes=1)
    return moment.timestamp()


def _is_missing(moment: datetime, zone: ZoneInfo) -> bool:
    """True if no clock ever shows that, since clocks are set forward over it."""
    shown = moment.astimezone(UTC).astimezone(zone)
    return shown.replace(tzinfo=None, fold=0) != moment.replace(tzinfo=None, fold=0)


def _zone(tz: str) -> ZoneInfo | None:
    from zoneinfo import ZoneInfo

    if not tz or len(tz) > MOST_CHARACTERS or tz in ("localtime", "posixrules"):
        return None  # the last two are another zone on each host
    try:
        return ZoneInfo(tz)
    except (OSError, ValueError, KeyError):  # KeyError: there is no such zone
        return None
