"""Jobs that vanished with a child process between the queue and its shared state.

A child takes a job off the queue, and an instant later its shared state says so. If it dies in that
instant, nothing tells that the job was taken. So after a death, what was sent but is neither in
the queue nor in a shared state is unaccounted for, and any survivor might just be about to show
it. It is lost when a settling time has passed and each survivor has been seen elsewhere: at work,
or asleep at the queue. Pure: `now` is always an argument.
"""

from __future__ import annotations

from collections.abc import Iterable


class _Death:
    def __init__(self, keys: set[int], suspects: set[int], cause: str, now: float) -> None:
        self.keys, self.suspects, self.cause, self.at = keys, suspects, cause, now
        self.looks = 0


class UnaccountedRuns:
    """What is missing after each death; children are known by their process ids."""

    def __init__(self, *, settle: float = 0.1, looks: int = 2) -> None:
        self._settle, self._looks = settle, looks
        self._deaths: list[_Death] = []

    def __bool__(self) -> bool:
        return bool(self._deaths)

    @property
    def suspects(self) -> set[int]:
        """The children that might still turn out to have taken something."""
        return {child for death in self._deaths for child in death.suspects}

    def died(
        self, keys: Iterable[int], *, survivors: Iterable[int], cause: str, now: float
    ) -> None:
        """A child died and these keys are unaccounted for."""
        if found := set(keys):
            self._deaths.append(_Death(found, set(survivors), cause, now))

    def found(self, key: int) -> None:
        """A run is in a shared state, has an outcome, or was put aside."""
        for death in self._deaths:
            death.keys.discard(key)

    def cleared(self, child: int) -> None:
        """A survivor was seen at work or asleep, or has died and been looked into itself."""
        for death in self._deaths:
            death.suspects.discard(child)

    def lost(self, *, now: float) -> list[tuple[int, str]]:
        """Look again: return the keys that are lost by now, each with the cause."""
        lost: list[tuple[int, str]] = []
        kept = []
        for death in self._deaths:
            death.looks += 1
            is_settled = death.looks >= self._looks and now - death.at >= self._settle
            if is_settled and not death.suspects:
                lost += [(key, death.cause) for key in sorted(death.keys)]
            elif death.keys:
                kept.append(death)
        self._deaths = kept
        return lost
