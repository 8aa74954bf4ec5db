"""One Parquet file: its footer, and the rows of its row groups, on whatever file system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.location import Location

BATCH_ROWS = 16_384
"""So many rows of a row group are in memory at once. They are decoded by the thread that reads:
threads of Arrow's keep memory of their own, and the other cores have readers too."""

AT_ONCE = 16
"""So many footers are read at the same time where each takes a round trip."""


class RowGroups(NamedTuple):
    """Row groups of a file; None is all of them."""

    url: str
    numbers: tuple[int, ...] | None = None


class ParquetReader:
    """A file that is open. `groups` are the row groups that may have rows of the `filter`."""

    def __init__(self, piece: RowGroups, row_filter: Any | None) -> None:
        self.url, self._filter = piece.url, row_filter
        self._input = opened(piece.url)
        with parquet_faults(piece.url):
            self._file = arrow("pyarrow.parquet").ParquetFile(
                self._input, pre_buffer=not isinstance(self._input, str)
            )
        self.names: list[str] = self._file.schema_arrow.names
        numbers = range(self._file.num_row_groups) if piece.numbers is None else piece.numbers
        self._fragment: Any = None
        self.groups = list(numbers) if row_filter is None else self._fitting(numbers)

    def batches(self, group: int, columns: Sequence[str] | None, start: int) -> Iterator[Any]:
        """Return the rows of a row group from one on, in batches of Arrow's."""
        if self._fragment is None:
            made = self._file.iter_batches(
                BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False
            )
        else:
            made = self._fragment.subset(row_group_ids=[group]).to_batches(
                columns=columns, filter=self._filter, batch_size=BATCH_ROWS
            )
        for batch in made:
            if start >= batch.num_rows:
                start -= batch.num_rows
            else:
                yield batch.slice(start)
                start = 0

    def close(self) -> None:
        self._file.close()
        if not isinstance(self._input, str):
            self._input.close()

    def _fitting(self, numbers: Sequence[int]) -> list[int]:
        """Leave out row groups whose statistics say that no row fits the filter."""
        store, path = Location(self.url).store
        found = arrow("pyarrow.dataset").ParquetFileFormat().make_fragment(path, store)
        with parquet_faults(self.url):
            self._fragment = found.subset(row_group_ids=list(numbers))
            fitting = self._fragment.subset(self._filter)
        return [group.id for group in fitting.row_groups]


def opened(url: str) -> Any:
    """Return what pyarrow reads a file from."""
    location = Location(url)
    return url if location.is_local else location.open()


def footers_of(urls: Sequence[str]) -> list[Any]:
    """Read the footers of files, in their order."""
    if not urls or Location(urls[0]).is_local:
        return list(map(_footer, urls))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_footer, urls))


def _footer(url: str) -> Any:
    with parquet_faults(url):
        return arrow("pyarrow.parquet").read_metadata(opened(url))


def as_expression(row_filter: Any) -> Any | None:
    """Return a filter as an expression of pyarrow's."""
    if row_filter is None or isinstance(row_filter, arrow("pyarrow.compute").Expression):
        return row_filter
    try:
        return arrow("pyarrow.parquet").filters_to_expression(row_filter)
    except (TypeError, ValueError) as error:
        raise FlowError(
            f"where={row_filter!r} is no filter ({error}); give an expression of pyarrow's, or a "
            "list such as [('celsius', '>', 80)]"
        ) from error


@contextmanager
def parquet_faults(url: str) -> Iterator[None]:
    """Have what pyarrow raises at a file name it."""
    try:
        yield
    except (OSError, arrow().ArrowException) as error:
        raise FlowError(f"{url}: can't be read as Parquet: {error}; mend or remove it") from error
