"""The reverse look-up: how many inputs may be acknowledged for how many outputs delivered.

Outputs are delivered in the order in which they were made, and inputs are acknowledged in theirs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Needs = Callable[[], Sequence[int]]
"""For each input, how many outputs must be delivered before it may be acknowledged; only asked
for where a batch is delivered in part."""


@dataclass(slots=True)
class _Batch:
    inputs: int
    outputs: int
    needs: Needs | None
    delivered: int = 0
    acknowledged: int = 0


class InOutBuffer:
    """Counts what went in and came out of one worker, on one of its edges."""

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque()

    def record(self, inputs: int, outputs: int, needs: Needs | None = None) -> None:
        """Note a batch that became outputs.

        Without `needs` it is one to one where the numbers agree, else all or nothing. Outputs
        with no input, and inputs with no output, are batches like others.
        """
        self._batches.append(_Batch(inputs, outputs, needs))

    def delivered(self, outputs: int) -> int:
        """Note how many more outputs were delivered; return how many inputs that acknowledges."""
        acknowledged = 0
        while self._batches:
            batch = self._batches[0]
            now = min(outputs, batch.outputs - batch.delivered)
            batch.delivered += now
            outputs -= now
            acknowledged += _acknowledgeable(batch) - batch.acknowledged
            if batch.delivered < batch.outputs:
                batch.acknowledged = _acknowledgeable(batch)
                break
            self._batches.popleft()
        if outputs:
            raise ValueError(f"{outputs} outputs were delivered that were never made")
        return acknowledged


def _acknowledgeable(batch: _Batch) -> int:
    if batch.delivered == batch.outputs:
        return batch.inputs
    if batch.needs is not None:
        return bisect_right(batch.needs(), batch.delivered)
    return batch.delivered if batch.inputs == batch.outputs else 0


def chained(first: Needs | None, second: Needs | None) -> Needs | None:
    """The needs of two steps in a row; None is one to one."""
    if first is None or second is None:
        return first or second

    def needs() -> Sequence[int]:
        of_second = second()
        return [of_second[middle - 1] if middle else 0 for middle in first()]

    return needs
