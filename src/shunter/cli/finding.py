"""What an examination of this machine found."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from shunter.settings import Settings


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


class Surroundings(Struct, frozen=True):
    """What an examination may look at besides the machine itself."""

    settings: Settings
    environ: Mapping[str, str]
