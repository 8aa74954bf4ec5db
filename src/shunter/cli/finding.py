"""What an examination of this machine found."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from shunter.settings import Settings
from shunter.store.finding import Finding, State

__all__ = ["Finding", "State", "Surroundings"]


class Surroundings(Struct, frozen=True):
    """What an examination may look at besides the machine itself."""

    settings: Settings
    environ: Mapping[str, str]
