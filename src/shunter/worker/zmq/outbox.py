"""Reports that no dispatcher has confirmed yet. Pure.

A report is kept until a dispatcher says that it is committed, and offered again to whichever
dispatcher is there, so that a dispatcher's death does not cost a finished job a second run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from shunter.model.document import DOCUMENT_BYTES
from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Held, Report
from shunter.wire.batches import batches
from shunter.wire.parts import FLOOR_BYTES_PER_SECOND, WHOLE_BYTES

RESEND_SECONDS = 3.0
"""A batch that was not confirmed for so long, and for as long as it may be on its way, is sent
again; a second report does no harm."""


class Outbox:
    """Numbered batches of reports on their way."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[Report, ...]] = {}
        self._due_at: dict[int, float] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, reports: Iterable[Report], *, now: float) -> list[tuple[int, tuple[Report, ...]]]:
        """Number new reports, in batches of bounded size, and return those."""
        added = []
        for batch in batches(reports, _weight):
            self._last += 1
            self._batches[self._last] = tuple(batch)
            self._due_at[self._last] = now + _patience(batch)
            added.append((self._last, tuple(batch)))
        return added

    def confirmed(self, numbers: Iterable[int]) -> list[Report]:
        """Drop these batches and return what was in them."""
        dropped: list[Report] = []
        for number in numbers:
            dropped += self._batches.pop(number, ())
            self._due_at.pop(number, None)
        return dropped

    def stale(self, *, now: float) -> list[tuple[int, tuple[Report, ...]]]:
        """Return what is to be sent again, and count it as sent now."""
        due = [number for number, due_at in self._due_at.items() if now >= due_at]
        self._due_at.update((number, now + _patience(self._batches[number])) for number in due)
        return [(number, self._batches[number]) for number in due]

    def unconfirmed(self) -> list[tuple[int, tuple[Report, ...]]]:
        return list(self._batches.items())

    def held(self) -> Iterator[Held]:
        """Yield the runs that ended here but whose end nobody has confirmed."""
        for batch in self._batches.values():
            for report in batch:
                yield Held(report.job_id, report.attempt)

    def clear(self) -> None:
        self._batches.clear()
        self._due_at.clear()


def within_limit(report: Report, max_result_bytes: int) -> Report:
    """Return the report, or one that says that its result is larger than anyone accepts."""
    size = len(report.result or b"")
    if size <= max_result_bytes + DOCUMENT_BYTES:
        return report
    message = (
        f"it returned {size:,} bytes; at most {max_result_bytes:,} are accepted "
        "(zmq.max_message_bytes); store the result elsewhere and return where it is"
    )
    return replace(report, result=None, error=Failure(ErrorKind.REFUSED, message))


def _weight(report: Report) -> int:
    return len(report.result or b"") + len(report.log)


def _patience(batch: Iterable[Report]) -> float:
    size = sum(map(_weight, batch))
    return RESEND_SECONDS + (size / FLOOR_BYTES_PER_SECOND if size > WHOLE_BYTES else 0.0)
