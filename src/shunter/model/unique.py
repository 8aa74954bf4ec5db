"""How long a job keeps its unique key, and what becomes of a second job with that key. Pure.

`uniqueness.py` decides what happens when two meet.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class During(StrEnum):
    """Until when a job keeps its key: until it first starts, or until it has ended."""

    QUEUED = "queued"
    RUNNING = "running"


class Then(StrEnum):
    """What is done with a job whose key another one has."""

    KEEP = "keep"
    REPLACE = "replace"
    POSTPONE = "postpone"


class Unique(Struct, frozen=True, omit_defaults=True):
    """One job at a time has this key.

    It keeps the key `during` the time that it is "queued", or until it is done "running"; and in
    any case for `within` seconds after it was submitted. Where neither is said: as long as its
    record exists. A second job `then` is not made: "keep" answers with the first, if that has the
    same arguments; "replace" gives the first the arguments and the delay of the second, if it has
    not begun; "postpone" only moves the time before which the first does not start.
    """

    key: str
    within: float | None = None
    during: str = ""
    then: str = Then.KEEP.value

    @property
    def lasts(self) -> During | None:
        """Until when the key is kept; None as long as the record exists."""
        if self.during:
            return During(self.during)
        if self.then != Then.KEEP:
            return During.QUEUED
        return None if self.within is None else During.RUNNING
