"""Reports on their way to a dispatcher, each with the time at which it is tried next.

One that fails waits by itself and holds up no other. Pure: `now` is always an argument.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from shunter.model.report import Held, Report


class PendingReport(Struct, eq=False):
    """One report: what it says, and how often it was tried in vain.

    `written` is the report as it is sent, once it has been written.
    """

    report: Report
    worker_id: str
    secret: str
    due: float
    failures: int = 0
    is_out: bool = False
    written: bytes = b""

    @property
    def run(self) -> Held:
        return Held(self.report.job_id, self.report.attempt)


class PendingReports:
    """All reports that no dispatcher has taken."""

    def __init__(self) -> None:
        self._letters: dict[Held, PendingReport] = {}

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, report: Report, worker_id: str, secret: str = "", *, now: float) -> None:
        letter = PendingReport(report, worker_id, secret, now)
        self._letters[letter.run] = letter

    def take(self, *, now: float) -> PendingReport | None:
        """Return the letter that is due longest; it is out from now on."""
        due = [letter for letter in self._waiting() if letter.due <= now]
        if not due:
            return None
        letter = min(due, key=lambda one: one.due)
        letter.is_out = True
        return letter

    def next_due(self) -> float | None:
        """Return when there is something to take."""
        return min((letter.due for letter in self._waiting()), default=None)

    def put_back(self, letter: PendingReport, *, due: float) -> None:
        """It came back; try again at that time."""
        letter.is_out, letter.due = False, due

    def remove(self, letter: PendingReport) -> bool:
        """It is settled; tell whether anybody still waited for that."""
        is_here = self._letters.get(letter.run) is letter
        if is_here:
            del self._letters[letter.run]
        return is_here

    def clear(self) -> None:
        self._letters.clear()

    def _waiting(self) -> Iterator[PendingReport]:
        return (letter for letter in self._letters.values() if not letter.is_out)
