"""Which zone somebody may have meant by a name that is none. Pure."""

from __future__ import annotations

from functools import cache

from shunter.model.spelling import did_you_mean

NEVER_MEANT = ("Factory", "localtime")


def zone_question(tz: str) -> str:
    """Return a question to put behind a message; nothing if there is none to ask.

    Of a name with a digit in it, such as GMT+1, none is asked: that is an offset and no slip, and
    zones that look like it have their sign the other way round.
    """
    if any(character.isdigit() for character in tz):
        return ""
    for part in (str.lower, _place):
        meant = [zone for zone in _zones() if part(zone) == part(tz)]
        if len(meant) == 1:
            return f"; did you mean {meant[0]!r}?"
    return did_you_mean(tz, (zone for zone in _zones() if _area(zone) == _area(tz)))


def _area(tz: str) -> str:
    return tz.rpartition("/")[0].partition("/")[0].lower()


def _place(tz: str) -> str:
    return tz.rpartition("/")[2].lower()


@cache
def _zones() -> tuple[str, ...]:
    from zoneinfo import available_timezones

    return tuple(zone for zone in available_timezones() if zone not in NEVER_MEANT)
