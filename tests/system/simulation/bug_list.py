"""The list of bugs that the simulator must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from shunter.testing.simulation.scenario import FaultKind

Plant = Callable[[pytest.MonkeyPatch], None]


class Bug(NamedTuple):
    """What is wrong, how it is planted, and the faults among which it is looked for."""

    what: str
    plant: Plant
    faults: tuple[FaultKind, ...]


BUGS: dict[str, Bug] = {}


def bug(what: str, *faults: FaultKind) -> Callable[[Plant], Plant]:
    """Add a bug to the list; its name is the function's."""

    def add(plant: Plant) -> Plant:
        BUGS[plant.__name__] = Bug(what, plant, faults or tuple(FaultKind))
        return plant

    return add


def nothing(*_: Any, **__: Any) -> None:
    """Leave out what should be done here."""
