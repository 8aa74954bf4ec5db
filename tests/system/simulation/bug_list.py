"""The list of bugs that the simulator must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]

BUGS: dict[str, tuple[str, Plant]] = {}


def bug(what: str) -> Callable[[Plant], Plant]:
    """Add a bug to the list; its name is the function's."""

    def add(plant: Plant) -> Plant:
        BUGS[plant.__name__] = (what, plant)
        return plant

    return add


def nothing(*_: Any, **__: Any) -> None:
    """Leave out what should be done here."""
