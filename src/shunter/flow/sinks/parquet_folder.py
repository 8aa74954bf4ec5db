"""Events into a folder of Parquet files.

A Parquet file is whole only when it is closed, so each checkpoint closes one. They are named after
their number and the run, and lie in a folder beside the target until all of them are published
together. A folder that was published already and is gone back to is filled from the target. Where
output is to be seen while the flow runs, those of each checkpoint are moved into the target.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.sinks.growing_file import (
    check_target,
    file_faults,
    is_still_there,
    lock,
    part_of,
)
from shunter.flow.sinks.records import records_of
from shunter.rerun.directories import staged_directory
from shunter.rerun.staging_folder import sync

ROWS_AT_ONCE = 100_000
_FOREIGN = "files-of-others"


class WriteParquet:
    """Writes each event as a row, exactly once; the folder appears when all are written.

    `schema` is a pyarrow schema; without one columns have the types of the first values in them.
    Several workers write folders of their own, such as out-00000-of-00004.parquet.
    """

    def __init__(self, path: str | os.PathLike[str], *, schema: Any = None) -> None:
        self.path, self._given = Path(path), schema
        self._staging = self._target = self.path
        self._schema: Any = None
        self._run = ""
        self._number = 0
        self._shown: int | None = None
        self._rows: list[dict[str, Any]] = []
        self._writer: Any = None
        self._lock: int | None = None

    def __del__(self) -> None:
        self._let_go()

    def part(self, index: int, count: int) -> WriteParquet:
        return WriteParquet(part_of(self.path, index, count), schema=self._given)

    def check(self) -> None:
        check_target(Path(os.path.realpath(self.path)), is_folder=True)

    def open(self, saved: Any | None) -> None:
        self._shown = None
        self._open(saved or (secrets.token_hex(4), 0))

    def open_shown(self, saved: Any | None) -> None:
        *position, self._shown = saved or (secrets.token_hex(4), 0, 0)
        self._open(position)

    def _open(self, position: Sequence[Any]) -> None:
        self._let_go()
        arrow("pyarrow.parquet")
        self._target = Path(os.path.realpath(self.path))
        self._staging = self._target.with_name(f".{self._target.name}.part")
        check_target(self._target, is_folder=True)
        self._rows, self._schema = [], self._given or arrow().schema([])
        self._run, self._number = position
        with file_faults(self._target):
            self._lock_staging()
            sync(self._staging.parent)
            self._go_back()

    def write(self, events: Sequence[Any]) -> int:
        self._rows += records_of(events)
        if len(self._rows) >= ROWS_AT_ONCE:
            self._write_rows()
        return len(events)

    @property
    def takes_files(self) -> bool:
        """Tell whether files that others have written will do, whatever their columns."""
        return self._given is None

    @property
    def room_for_files(self) -> Path:
        """Where others may write files that `take_files` will take; it is there when it is open."""
        return self._staging / _FOREIGN

    def take_files(self) -> int:
        """Take the files that were written there; return how many rows they have."""
        rows = 0
        with file_faults(self._target):
            for path in sorted(self.room_for_files.glob("*.parquet")):
                footer = arrow("pyarrow.parquet").read_metadata(path)
                rows += footer.num_rows
                self._learn(footer.schema.to_arrow_schema())
                os.rename(path, self._file(self._number))
                sync(self._file(self._number))
                self._number += 1
            shutil.rmtree(self.room_for_files)
            sync(self._staging)
        return rows

    def checkpoint(self) -> Any:
        self._write_rows()
        if self._writer is not None:
            with file_faults(self._target):
                self._end_file()
                sync(self._staging)
        return [self._run, self._number, *([] if self._shown is None else [self._shown])]

    def publish(self) -> None:
        assert self._shown is not None, "opened to be seen at the end alone"
        if self._shown == self._number:
            return
        with file_faults(self._target):
            if not self._shown:
                self._publish_all()
            for number in range(self._shown, self._number):
                path = self._file(number)
                os.replace(path, self._target / path.name)
                path.unlink(missing_ok=True)  # one link to a file stays, where there were two
            sync(self._target)
        self._shown = self._number

    def close(self) -> None:
        if self._lock is None:
            return
        self.checkpoint()
        if self._shown:
            self.publish()
        else:
            with file_faults(self._target):
                self._publish_all()
        with file_faults(self._target):
            shutil.rmtree(self._staging)
        self._let_go()

    def abandon(self) -> None:
        self._let_go()

    def _file(self, number: int) -> Path:
        return self._staging / f"part-{number:05d}-{self._run}.parquet"

    def _lock_staging(self) -> None:
        while self._lock is None:
            self._staging.mkdir(exist_ok=True)
            self._lock = os.open(self._staging, os.O_RDONLY)
            lock(self._lock, self._staging)
            if not is_still_there(self._lock, self._staging):
                self._let_go()

    def _go_back(self) -> None:
        """Keep what was saved, fetch it from the target where it is missing, and drop the rest."""
        saved = [self._file(number) for number in range(self._shown or 0, self._number)]
        shutil.rmtree(self.room_for_files, ignore_errors=True)
        for path in set(self._staging.iterdir()) - set(saved):
            path.unlink()
        for path in saved:
            published = self._target / path.name
            if not path.exists() and published.exists():
                _link(published, self._staging)
            elif not path.exists():
                raise FlowError(f"{path}: it was saved and is gone; begin a new run")
        if self._given is None:
            # The last of those that are shown has the columns of all before it.
            shown = [self._target / self._file(self._shown - 1).name] if self._shown else []
            for path in [*shown, *saved]:
                self._learn(arrow("pyarrow.parquet").read_schema(path))

    def _write_rows(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        table = self._table_of(rows)
        with file_faults(self._target):
            if self._writer is not None and self._writer.schema != table.schema:
                self._end_file()
            if self._writer is None:
                path = self._file(self._number)
                self._writer = arrow("pyarrow.parquet").ParquetWriter(path, table.schema)
            self._writer.write_table(table)

    def _end_file(self) -> None:
        self._writer.close()
        self._writer = None
        sync(self._file(self._number))
        self._number += 1

    def _table_of(self, rows: list[dict[str, Any]]) -> Any:
        pyarrow = arrow()
        try:
            if self._given is not None:
                return pyarrow.Table.from_pylist(rows, schema=self._given)
            known = {field.name: field.type for field in self._schema}
            names = dict.fromkeys(chain(known, chain.from_iterable(rows)))
            table = pyarrow.table({
                name: pyarrow.array([row.get(name) for row in rows], _settled(known.get(name)))
                for name in names
            })  # fmt: skip
            self._learn(table.schema)
        except (pyarrow.ArrowException, TypeError, OverflowError) as error:
            raise FlowError(
                f"{self.path}: events don't fit the columns ({error}); pass schema=pyarrow.schema("
                "[…]), or map them"
            ) from error
        return table

    def _learn(self, schema: Any) -> None:
        """Take in new columns, and the types of those that had only nulls so far."""
        self._schema = arrow().unify_schemas([self._schema, schema])

    def _publish_all(self) -> None:
        """Let the target be all files, and nothing else."""
        with staged_directory(self._target, allow_gap=True, run=self._run) as folder:
            for number in range(self._number):
                self._publish(self._file(number), folder)

    def _publish(self, path: Path, folder: Path) -> None:
        """Put a file into a folder; with all columns, also if some came only later."""
        parquet = arrow("pyarrow.parquet")
        if parquet.read_schema(path) == self._schema:
            _link(path, folder)
            return
        tables = [self._schema.empty_table(), parquet.read_table(path)]
        whole = arrow().concat_tables(tables, promote_options="default")
        parquet.write_table(whole, folder / path.name)

    def _let_go(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _settled(column_type: Any) -> Any:
    """Return a type that a column must keep; none while it had only nulls."""
    return None if column_type == arrow().null() else column_type


def _link(path: Path, folder: Path) -> None:
    try:
        os.link(path, folder / path.name)
    except OSError:
        shutil.copy2(path, folder / path.name)
