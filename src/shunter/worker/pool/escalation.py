"""How a run is stopped: first a request, then SIGTERM, then SIGKILL.

One `Escalation` stands for one run that shall end, because somebody cancelled it or because its
time is over. It says what to do next and when, and what the run's outcome is worth once the
run has ended. Pure: `now` is always an argument.
"""

from __future__ import annotations

from enum import StrEnum

from shunter.model.job import ErrorKind, Failure


class Push(StrEnum):
    """What it takes; the words are what a job's record says in `ended_by`."""

    REQUEST = "request"
    SIGTERM = "SIGTERM"
    SIGKILL = "SIGKILL"


_ORDER = tuple(Push)


class StopStep(StrEnum):
    """What a push means for a run that shares its child with others."""

    WAIT = "nothing yet"
    ASK = "cancel its task, and let its context say so"
    TELL = "raise Terminated in it"
    INTERRUPT = "raise Terminated in what its child's loop is busy with"
    KILL = "kill its child"


def step_of(push: Push, key: int, blocker: int | None) -> StopStep:
    """Return how to push a run, where `blocker` keeps its child's loop from all others.

    That one hears nothing but a signal, and may just be about to go on.
    """
    if push is Push.REQUEST:
        return StopStep.WAIT if blocker == key else StopStep.ASK
    if push is Push.SIGTERM:
        return StopStep.INTERRUPT if blocker == key else StopStep.TELL
    return StopStep.KILL


def is_held_up(
    key: int, blocker: int | None, *, unheard_for: float | None = None, patience: float = 0.0
) -> bool:
    """True if another run is why this one does not stop: its turn comes after that.

    Either it is known that another keeps the loop from all, or the loop has not taken in what was
    said about this one, and who is at fault will be known within `patience` seconds.
    """
    if blocker is not None:
        return blocker != key
    return unheard_for is not None and unheard_for < patience


class Escalation:
    """One run that shall end. `grace` is the time from one kind of push to the next."""

    def __init__(self, kind: ErrorKind, reason: str, *, grace: float) -> None:
        self.kind, self.reason = kind, reason
        self._grace = grace
        self._pushes = 0
        self._pushed_at = 0.0

    def due(self, *, now: float) -> Push:
        """Return the push to make now: the next one when its time has come, else the last again.

        Again, since a signal that comes just before a process goes to sleep does not wake it.
        """
        is_next_due = self._pushes == 0 or now - self._pushed_at >= self._grace
        if is_next_due and self._pushes < len(_ORDER):
            self._pushes += 1
            self._pushed_at = now
        return _ORDER[self._pushes - 1]

    @property
    def has_begun(self) -> bool:
        """True if the run has been pushed by more than a request."""
        return self._pushes > 1

    @property
    def ended_by(self) -> str:
        """The last push so far."""
        return _ORDER[self._pushes - 1].value if self._pushes else ""

    def accepts_result(self) -> bool:
        """True if a result that the run still delivered counts.

        A cancel asks for the work to end, and it has. A time-out is a promise to the caller.
        """
        return self.kind is not ErrorKind.TIMEOUT

    def failure(self, run: Failure | None = None) -> Failure:
        """Return the failure to report for this run, which itself ended with `run`."""
        if run is None:
            return Failure(self.kind, self.reason, ended_by=self.ended_by)
        if run.kind is ErrorKind.REFUSED:
            return run
        message = f"{self.reason}; it ended with {run.message}" if run.message else self.reason
        return Failure(self.kind, message, run.traceback, self.ended_by)
