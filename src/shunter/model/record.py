"""A small document that dispatchers share: a key, a line of the audit log, a secret, a schedule,
a pause, the limits of a type, what a dispatcher did in a minute.

An edition says which records of another kind were changed last, for those who keep many in mind.

Records of one kind have names of their own and are few, except where a reader asks for a page of
them. They are written by compare-and-swap, like jobs. Pure.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class RecordKind(StrEnum):
    """What there are records of."""

    KEY = "key"
    SECRET = "secret"  # noqa: S105
    AUDIT = "audit"
    PAUSE = "pause"
    SCHEDULE = "schedule"
    EDITION = "edition"
    LIMITS = "limits"
    RATE = "rate"
    ACTIVITY = "activity"


class Record(Struct, frozen=True, kw_only=True):
    """One document, as JSON. Revision 1 is a new one; a record without a document is deleted."""

    kind: RecordKind
    name: str
    revision: int = 1
    document: bytes | None = None
