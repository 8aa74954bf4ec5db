"""What gateways may see of a dispatcher's memory. Nothing is changed through it."""

from __future__ import annotations

from collections.abc import Mapping

from shunter.dispatch.state import DispatcherState
from shunter.dispatch.timings import Timings


class DispatcherView:
    """A look at the state of one dispatcher, as it is now."""

    def __init__(self, state: DispatcherState) -> None:
        self._state = state

    def served_types(self) -> set[str]:
        """Return the types that some worker here does."""
        return self._state.roster.types()

    @property
    def connected(self) -> int:
        """How many workers are here."""
        return len(self._state.members)

    @property
    def skews(self) -> Mapping[str, float]:
        """By how much our clock is ahead of those of other dispatchers."""
        return self._state.skews

    @property
    def timings(self) -> Timings:
        """How long jobs waited and ran."""
        return self._state.timings
