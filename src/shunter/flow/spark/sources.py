"""Events from a DataFrame of Spark's, read by as many tasks as it has partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.sources.arrow import arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DataFrameSource:
    """The rows of a DataFrame, which a function makes of the session: `lambda spark: ...`.

    A row becomes a dict, or with `type` an object of a dataclass or msgspec Struct. Only Spark
    can read it. Stages behind it that have no state run in as many tasks as it has partitions.
    """

    def __init__(
        self,
        frame: Callable[[SparkSession], DataFrame],
        *,
        type: Any = None,  # noqa: A002
    ) -> None:
        self.frame, self._type = frame, type

    def rows(self) -> FrameRows:
        """Return what tasks need of it."""
        return FrameRows(self._type)

    def open(self, position: Any | None) -> None:
        raise FlowError("a DataFrame can only be read on Spark; run the flow with --on spark")

    def read(self, limit: int) -> list[Any] | None:
        raise NotImplementedError

    def position(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        return


class FrameRows:
    """Makes events of the batches of one partition."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
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
            self._waiting = self._events_in(batch, limit)
        return events

    def _events_in(self, batch: Any, limit: int) -> Iterator[list[Any]]:
        for at in range(0, batch.num_rows, limit):
            yield events_of(batch.slice(at, limit), self._kind)

    def position(self) -> Any:
        return None

    def close(self) -> None:
        return


def events_of(batch: Any, kind: Any = None) -> list[Any]:
    """Make events of a batch of Arrow's, column by column."""
    names: Sequence[str] = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if kind is None:
        return rows
    try:
        return msgspec.convert(rows, list[kind])
    except msgspec.ValidationError as error:
        raise FlowError(
            f"a row is no {kind.__name__}: {error}; let the columns be its fields"
        ) from error


def _values(column: Any) -> list[Any]:
    """Return the values of a column; numbers without gaps come by the fast way."""
    types = arrow("pyarrow.types")
    is_number = types.is_integer(column.type) or types.is_floating(column.type)
    if is_number and not column.null_count:
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]
