"""Events from a DataFrame of Spark's, read by as many tasks as it has partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from shunter.errors import FlowError
from shunter.flow.sources.arrow_rows import events_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


AT_ONCE = 8_192
"""So many rows are made events at once, also where fewer were asked for: nobody waits for them."""

TAKEN = "_taken"
"""A column of results: how many events have gone into each, counted once in all windows."""


class DataFrameSource:
    """The rows of a DataFrame, which a function makes of the session: `lambda spark: ...`.

    A row becomes a dict, or with `type` an object of a dataclass or msgspec Struct. Only Spark
    can read it. Stages behind it that have no state run in as many tasks as it has partitions.
    `results_of` names a stage that Spark itself does, if these are its results with TAKEN.
    """

    def __init__(
        self,
        frame: Callable[[SparkSession], DataFrame],
        *,
        type: Any = None,  # noqa: A002
        results_of: str = "",
    ) -> None:
        self.frame, self.event_type, self.results_of = frame, type, results_of

    def rows(self) -> FrameRows:
        """Return what tasks need of it."""
        return FrameRows(self.event_type, self.results_of)

    def open(self, position: Any | None) -> None:
        self._refuse()

    def read(self, limit: int) -> list[Any] | None:
        self._refuse()

    def position(self) -> Any:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise FlowError("a DataFrame can only be read on Spark; run the flow with --on spark")

    def close(self) -> None:
        return


def _place(_: int) -> str:
    return "a row of the DataFrame"


class FrameRows:
    """Makes events of the batches of one partition.

    Where they are results of a stage that Spark itself does, `taken` is what it has made them of.
    """

    def __init__(self, kind: Any, results_of: str = "") -> None:
        self.event_type, self.results_of = kind, results_of
        self.taken = self.given = 0
        self._batches: Iterator[Any] = iter(())
        self._waiting: Iterator[list[Any]] = iter(())

    def of(self, batches: Iterator[Any]) -> FrameRows:
        self._batches = batches
        return self

    def open(self, position: Any | None) -> None:
        assert position is None, "Spark begins a task anew"

    def read(self, limit: int) -> list[Any] | None:
        while (events := next(self._waiting, None)) is None:
            if (batch := next(self._batches, None)) is None:
                return None
            self._waiting = self._events_in(batch, max(limit, AT_ONCE))
        return events

    def read_batch(self, _: int) -> Any | None:
        """Read rows as Spark has put them into a batch; none are left where it is None."""
        return next(self._batches, None)

    def _events_in(self, batch: Any, limit: int) -> Iterator[list[Any]]:
        if self.results_of:
            self.taken += sum(batch.column(TAKEN).to_pylist())
            self.given += batch.num_rows
            batch = batch.drop_columns([TAKEN])
        for at in range(0, batch.num_rows, limit):
            yield events_of(batch.slice(at, limit), self.event_type, _place)

    def position(self) -> Any:
        return None

    def close(self) -> None:
        return
