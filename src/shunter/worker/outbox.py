"""Reports that no dispatcher has confirmed yet. Pure.

A report is kept until a dispatcher says that it is committed, and offered again to whichever
dispatcher is there, so that a dispatcher's death does not cost a finished job a second run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shunter.wire.messages import Held, Report

BATCH_BYTES = 1024 * 1024


class Outbox:
    """Numbered batches of reports on their way."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[Report, ...]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, reports: Iterable[Report]) -> list[tuple[int, tuple[Report, ...]]]:
        """Number new reports, in batches of bounded size, and return those."""
        added = []
        for batch in _batches(reports):
            self._last += 1
            self._batches[self._last] = batch
            added.append((self._last, batch))
        return added

    def confirmed(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._batches.pop(number, None)

    def unconfirmed(self) -> list[tuple[int, tuple[Report, ...]]]:
        return list(self._batches.items())

    def held(self) -> Iterator[Held]:
        """Yield the runs that ended here but whose end nobody has confirmed."""
        for batch in self._batches.values():
            for report in batch:
                yield Held(report.job_id, report.attempt)

    def clear(self) -> None:
        self._batches.clear()


def _batches(reports: Iterable[Report]) -> Iterator[tuple[Report, ...]]:
    batch: list[Report] = []
    size = 0
    for report in reports:
        weight = len(report.result or b"") + len(report.log)
        if batch and size + weight > BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(report)
        size += weight
    if batch:
        yield tuple(batch)
