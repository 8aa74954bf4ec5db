"""Events into a Delta Lake table, through `deltalake`, exactly once.

They are staged as Parquet files beside the table, as `parquet_folder` does it, and appended by one
transaction: all of them at the end, or those of each checkpoint where output is to be seen while
the flow runs. The table itself is the ledger: each transaction names the run and how many files
of it are in, so that one which is repeated after a death is recognised and left out.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.sinks.growing_file import file_faults, part_of
from shunter.flow.sinks.parquet_folder import WriteParquet


class WriteDelta(WriteParquet):
    """Appends each event as a row to the table in a folder, which is created where there is none.

    `schema` is a pyarrow schema; without one columns have the types of the first values in them,
    and columns that the table has not got yet are added to it. Several workers append to the
    same table, each by transactions of its own.
    """

    def __init__(self, path: str | os.PathLike[str], *, schema: Any = None) -> None:
        super().__init__(path, schema=schema)
        self._table = self.path
        self._in_table = 0

    def part(self, index: int, count: int) -> WriteDelta:
        part = WriteDelta(part_of(self.path, index, count), schema=self._given)
        part._table = self._table
        return part

    @property
    def takes_files(self) -> bool:
        """Tell that rows must come one by one: columns have to be those of the table."""
        return False

    def publish(self) -> None:
        assert self._shown is not None, "opened to be seen at the end alone"
        self._append()
        self._shown = self._number

    def close(self) -> None:
        if self._lock is None:
            return
        self.checkpoint()
        self._append()
        with file_faults(self._target):
            shutil.rmtree(self._staging)
        self._let_go()

    def _open(self, position: Sequence[Any]) -> None:
        deltalake()
        if not _is_table(self._table) and _has_files(self._table):
            raise FlowError(
                f"{self._table}: the folder has files and is no Delta table; give another path"
            )
        if self._given is not None and _is_table(self._table):
            self._check_columns()
        super()._open(position)

    def _check_columns(self) -> None:
        """Refuse a schema that the table has not got: values would be cast, or be lost."""
        with self._faults():
            there = {field.name: field.type for field in self._opened().schema().fields}
            given = deltalake().Schema.from_arrow(self._given).fields
        for field in given:
            if there.get(field.name) != field.type:
                found = there.get(field.name)
                fact = "none" if found is None else f"one of {_words(found)}"
                raise FlowError(
                    f"{self._table}: schema= has a column {field.name!r} of {_words(field.type)}, "
                    f"and the table has {fact}; let them be alike"
                )

    def _go_back(self) -> None:
        """Keep what was saved and is not in the table yet; drop the rest."""
        self._in_table = self._files_in_table()
        kept = self._waiting()
        for path in set(self._staging.iterdir()) - set(kept):
            path.unlink()
        if gone := [path for path in kept if not path.exists()]:
            raise FlowError(f"{gone[0]}: it was saved and is gone; begin a new run")
        if self._given is None:
            if _is_table(self._table):
                self._learn(arrow().schema(self._opened().schema().to_arrow()))
            for path in kept:
                self._learn(arrow("pyarrow.parquet").read_schema(path))

    def _waiting(self) -> list[Path]:
        """Return the files that are not in the table; a run that is seen at its end has all in."""
        first = max(self._shown or 0, self._in_table)
        is_done = self._shown is None and self._in_table > 0
        return [] if is_done else [self._file(number) for number in range(first, self._number)]

    def _append(self) -> None:
        """Append what waits by one transaction; a table that was asked for is there at least."""
        waiting = self._waiting()
        with self._faults():
            if waiting:
                self._commit(waiting)
                self._in_table = self._number
            elif self._given is not None and not _is_table(self._table):
                deltalake().DeltaTable.create(str(self._table), self._given)
        for path in waiting:
            path.unlink()

    def _commit(self, files: Sequence[Path]) -> None:
        lake = deltalake()
        schema = self._settled_schema()
        batches = arrow().RecordBatchReader.from_batches(schema, _batches(files, schema))
        ledger = lake.CommitProperties(
            app_transactions=[lake.Transaction(self._app_id, self._number)]
        )
        lake.write_deltalake(
            str(self._table),
            batches,
            mode="append",
            schema_mode="merge" if self._given is None else None,
            commit_properties=ledger,
        )

    def _settled_schema(self) -> Any:
        """Return the columns, but for those that had only nulls so far: a table has no such."""
        null = arrow().null()
        return arrow().schema([field for field in self._schema if field.type != null])

    @property
    def _app_id(self) -> str:
        return f"shunter-{self._run}"

    def _files_in_table(self) -> int:
        """Return how many files of this run the table has, from the first on."""
        if not _is_table(self._table):
            return 0
        with self._faults():
            return int(self._opened().transaction_version(self._app_id) or 0)

    def _opened(self) -> Any:
        return deltalake().DeltaTable(str(self._table))

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Say what the errors of `deltalake` mean, and those of disks."""
        errors = (deltalake("deltalake.exceptions").DeltaError, arrow().ArrowException, OSError)
        try:
            yield
        except errors as error:
            said = str(error).strip().splitlines()[0]
            raise FlowError(
                f"{self._table}: nothing was appended: {said}; see that the table's columns fit "
                "those of the events (schema=…), and that there is room on the disk"
            ) from error


def deltalake(module: str = "deltalake") -> Any:
    """Import a part of deltalake, or raise a FlowError that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FlowError(
            f"Delta tables need deltalake, and it can't be imported ({error}); type: "
            "pip install 'shunter[delta]'"
        ) from error


def _words(kind: Any) -> str:
    return str(getattr(kind, "type", kind))


def _is_table(path: Path) -> bool:
    return (path / "_delta_log").is_dir()


def _has_files(path: Path) -> bool:
    return path.is_dir() and any(path.iterdir())


def _batches(files: Sequence[Path], schema: Any) -> Iterator[Any]:
    """Yield what is in files, with all columns, also if some came only later."""
    parquet = arrow("pyarrow.parquet")
    for path in files:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield _widened(batch, schema)


def _widened(batch: Any, schema: Any) -> Any:
    columns = {
        name: batch.column(at).cast(schema.field(name).type)
        for at, name in enumerate(batch.schema.names)
        if name in schema.names
    }
    missing = {
        field.name: arrow().nulls(batch.num_rows, field.type)
        for field in schema
        if field.name not in columns
    }
    whole = columns | missing
    return arrow().RecordBatch.from_arrays([whole[name] for name in schema.names], schema=schema)
