"""Events into a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shunter.flow.arrow import arrow
from shunter.flow.location import AnyPath
from shunter.flow.sinks.file_sink import FileSink
from shunter.flow.sinks.formats import (
    PARQUET_COMPRESSIONS,
    ParquetFormat,
    checked_compression,
)


class WriteParquet(FileSink):
    """Writes each event as a row, exactly once; the folder appears when all are written.

    `path` is a folder, or any URL that pyarrow knows. `schema` is a pyarrow schema; without one
    columns have the types of the values in them, and may become more. `partition_by` names fields
    whose values make folders, such as day=2026-11-16. `mode` is "overwrite", "append" or "error".
    `files` is how many files there are to be, about; without it, one for each task.
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        schema: Any = None,
        partition_by: str | Sequence[str] = (),
        mode: str = "overwrite",
        files: int | None = None,
        compression: str | None = "snappy",
    ) -> None:
        checked_compression(compression, PARQUET_COMPRESSIONS, "WriteParquet")
        self._schema, self._compression = schema, compression
        form = ParquetFormat(str(path), schema, compression)
        super().__init__(path, form, partition_by=partition_by, mode=mode, files=files)

    def _open(self, saved: Any | None) -> None:
        arrow("pyarrow.parquet")
        super()._open(saved)

    @property
    def takes_columns(self) -> bool:
        """True if columns will do as they are, whatever their types."""
        return self._schema is None and not self.partition_by
