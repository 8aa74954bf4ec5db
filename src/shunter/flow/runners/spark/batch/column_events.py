"""Rows of a source that go to keyed stages as columns: nobody makes events of them on the way."""

from __future__ import annotations

from typing import Any

from shunter.flow.sources.arrow_rows import events_of, is_made_by_position

AT_ONCE = 16_384
"""So many rows are read at once: to put columns into buckets pays for many of them."""


class ColumnEvents:
    """A batch of Arrow's that stands for events of one type, which are made behind the shuffle."""

    def __init__(self, batch: Any, kind: Any) -> None:
        self.batch, self.kind = batch, kind

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __getitem__(self, index: int) -> Any:
        return events_of(self.batch.slice(index, 1), self.kind)[0]

    def events(self) -> list[Any]:
        return events_of(self.batch, self.kind)


class ColumnSource:
    """A source of which batches are passed on as they are, if events of them need no check."""

    def __init__(self, source: Any) -> None:
        self._source, self._kind = source, source.event_type

    def open(self, position: Any | None) -> None:
        self._source.open(position)

    def read(self, limit: int) -> Any:
        batch = self._source.read_batch(max(limit, AT_ONCE))
        if batch is None:
            return None
        is_sure = self._kind is None or is_made_by_position(self._kind, batch)
        if is_sure and not _has_dictionary(batch):
            return ColumnEvents(batch.replace_schema_metadata(None), self._kind)
        return events_of(batch, self._kind)

    def position(self) -> Any:
        return self._source.position()

    def close(self) -> None:
        self._source.close()


def _has_dictionary(batch: Any) -> bool:
    """True if values of a column are elsewhere than in the batch, and would not go with it."""
    return any("dictionary<" in str(kind) for kind in batch.schema.types)
