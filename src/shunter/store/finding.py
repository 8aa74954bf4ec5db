"""What an examination found: one thing, whether it is well, and what to do if not."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class State(StrEnum):
    """Whether all is well; `MISSING` means that Shunter can't work so."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


class Finding(Struct, frozen=True):
    """One thing that was looked at; `remedy` says what to do where it is not ok."""

    name: str
    state: State
    fact: str
    remedy: str = ""
