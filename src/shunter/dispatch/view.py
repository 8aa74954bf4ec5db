"""What gateways may see of a dispatcher's memory. Nothing is changed through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from shunter.dispatch.state import DispatcherState
from shunter.dispatch.timings import Timings
from shunter.model.worker import Handler

COMPARED = ("priority", "timeout", "retry", "concurrency")
"""Of what handlers declare: schedules have rules of their own for who of two is right."""


class DispatcherView:
    """A look at the state of one dispatcher, as it is now."""

    def __init__(self, state: DispatcherState) -> None:
        self._state = state

    def served_types(self) -> set[str]:
        """Return the types that some worker here does."""
        return self._state.roster.types()

    def contradictions(
        self, worker_id: str, handlers: Iterable[Handler]
    ) -> Iterator[tuple[str, str]]:
        """Yield which worker declares a type of this one with other options, and what to say."""
        for handler in handlers:
            known = self._state.roster.declaring(handler.type)
            if known is None or known[0] == worker_id or known[1] == handler:
                continue
            other_id, other = known
            differing = ", ".join(
                f"{field} {getattr(handler, field)!r} and {getattr(other, field)!r}"
                for field in COMPARED
                if getattr(handler, field) != getattr(other, field)
            )
            if not differing:
                continue
            yield (
                other_id,
                f"workers {worker_id} and {other_id} declare type {handler.type!r} with different "
                f"options: {differing}; jobs that say nothing themselves get either. Give both "
                "apps the same options, or the types different names",
            )

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
