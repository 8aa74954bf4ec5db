"""Events into a Delta Lake table, through `deltalake`, exactly once.

Parquet files are written by whoever has the events, and added to the table by one transaction: all
of them at the end, or those of each checkpoint if output is to be seen while the flow runs. The
table itself is the ledger: each transaction names the run and how far it has come, so that one
which is repeated after a death is recognised and left out.
"""

from __future__ import annotations

import importlib
import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.location import AnyPath, Location
from shunter.flow.sinks.file_sink import Target, widened
from shunter.flow.sinks.local_target import LocalFolder
from shunter.flow.sinks.parquet_folder import WriteParquet
from shunter.flow.sinks.parts import OUR_NAMES, PartFile, number_of, schema_of, unified


class WriteDelta(WriteParquet):
    """Adds each event as a row to the table in a folder, which is created if there is none.

    `schema` is a pyarrow schema; without one columns have the types of the first values in them,
    and columns that the table has not got yet are added to it. Several workers, and all tasks of
    Spark, add to the same table. `mode` is "append", "overwrite" or "error".
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        schema: Any = None,
        partition_by: str | Sequence[str] = (),
        mode: str = "append",
        files: int | None = None,
        compression: str | None = "snappy",
    ) -> None:
        super().__init__(
            path,
            schema=schema,
            partition_by=partition_by,
            mode=mode,
            files=files,
            compression=compression,
        )

    def check(self) -> None:
        deltalake()
        super().check()
        table = DeltaLog(self.location)
        if not table.exists and self._has_foreign_files():
            raise FlowError(
                f"{self.location}: the folder has files and is no Delta table; give another path"
            )
        if self._schema is not None and table.exists and self.mode != "overwrite":
            table.check_columns(self._schema)

    def _open(self, saved: Any | None) -> None:
        super()._open(saved)
        if self._shown is not None and (done := DeltaLog(self.location).version_of(self._run)):
            self._parts = [part for part in self._parts if number_of(part) >= done]
            self._shown = max(self._shown, done)

    def _has_foreign_files(self) -> bool:
        files = self.location.files(recursive=True) if self.location.is_folder() else []
        return any(not OUR_NAMES.search(info.location.url) for info in files)

    def _new_target(self, *, is_single: bool, run: str = "") -> Target:
        log = DeltaLog(self.location, partition_by=self.partition_by, mode=self.mode)
        if self.location.is_local:
            return LocalTable(self.location, log, self._schema)
        return ObjectTable(self.location, log, self._schema)

    @property
    def takes_columns(self) -> bool:
        """False: columns have to be those of the table."""
        return False

    def _known_columns(self) -> bytes:
        """The columns that the table has, if the user has named none and they are to stay."""
        table = DeltaLog(self.location)
        if self._schema is not None or self.mode == "overwrite" or not table.exists:
            return b""
        return bytes(table.columns().serialize())

    def _publish_all(self, target: Target, parts: Sequence[PartFile], version: int = 1) -> None:
        target.publish_first(self._run, parts, version)


class DeltaLog:
    """The log of a table: which files are in it, and up to where runs have come."""

    def __init__(
        self, location: Location, *, partition_by: Sequence[str] = (), mode: str = "append"
    ) -> None:
        self._location, self._partition_by, self._mode = location, list(partition_by), mode

    @property
    def exists(self) -> bool:
        if self._location.is_local:
            return (self._location / "_delta_log").is_folder()
        return bool((self._location / "_delta_log").files())

    def columns(self) -> Any:
        with self._faults():
            return arrow().schema(self._table().schema().to_arrow())

    def version_of(self, run: str) -> int:
        """Return how far a run has come in the table."""
        if not self.exists:
            return 0
        with self._faults():
            return int(self._table().transaction_version(f"shunter-{run}") or 0)

    def commit(
        self, run: str, version: int, parts: Sequence[PartFile], columns: Any, *, is_first: bool
    ) -> None:
        """Add files by one transaction."""
        lake = deltalake("deltalake.transaction")
        now = int(time.time() * 1000)
        actions = [
            lake.AddAction(
                path=part.name,
                size=part.size,
                partition_values=dict(part.values),
                modification_time=now,
                data_change=True,
                stats=msgspec.json.encode({"numRecords": part.rows}).decode(),
            )
            for part in parts
        ]
        ledger = lake.CommitProperties(
            app_transactions=[lake.Transaction(f"shunter-{run}", version)]
        )
        mode = "overwrite" if is_first and self._mode == "overwrite" else "append"
        with self._faults():
            schema = deltalake().Schema.from_arrow(self._with_partitions(columns))
            options = {"partition_by": self._partition_by or None, "commit_properties": ledger}
            if self.exists:
                table = self._table()
                if mode == "append":
                    self._add_columns(table, schema)
                table.create_write_transaction(actions, mode, schema, **options)
            else:
                lake.create_table_with_add_actions(
                    self._uri, schema, actions, storage_options=self._storage, **options
                )

    def create(self, columns: Any) -> None:
        """Make a table without rows, unless there is one."""
        if not self.exists:
            with self._faults():
                deltalake().DeltaTable.create(
                    self._uri,
                    deltalake().Schema.from_arrow(columns),
                    partition_by=self._partition_by or None,
                    storage_options=self._storage,
                )

    def check_columns(self, schema: Any) -> None:
        """Refuse a schema that the table has not got: values would be cast, or be lost."""
        with self._faults():
            there = {field.name: field.type for field in self._table().schema().fields}
            given = deltalake().Schema.from_arrow(schema).fields
        for field in given:
            if there.get(field.name) != field.type:
                found = there.get(field.name)
                fact = "none" if found is None else f"one of {_words(found)}"
                raise FlowError(
                    f"{self._location}: schema= has a column {field.name!r} of "
                    f"{_words(field.type)}, and the table has {fact}; let them be alike"
                )

    def _add_columns(self, table: Any, schema: Any) -> None:
        there = {field.name for field in table.schema().fields}
        if new := [field for field in schema.fields if field.name not in there]:
            table.alter.add_columns(new)

    def _with_partitions(self, columns: Any) -> Any:
        """Return the columns with those that are in the names of folders, as texts."""
        there = {field.name: field.type for field in self.columns()} if self.exists else {}
        for name in self._partition_by:
            if name not in columns.names:
                columns = columns.append(arrow().field(name, there.get(name, arrow().string())))
        return columns

    def _table(self) -> Any:
        return deltalake().DeltaTable(self._uri, storage_options=self._storage)

    @property
    def _uri(self) -> str:
        return self._location.url

    @property
    def _storage(self) -> dict[str, str] | None:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if self._location.scheme != "s3" or not endpoint:
            return None
        allowed = "true" if endpoint.startswith("http://") else "false"
        return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": allowed}

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Say what the errors of `deltalake` mean, and those of disks."""
        errors = (deltalake("deltalake.exceptions").DeltaError, arrow().ArrowException, OSError)
        try:
            yield
        except errors as error:
            said = str(error).strip().splitlines()[0]
            raise FlowError(
                f"{self._location}: nothing was added: {said}; let the table's columns fit those "
                "of the events (schema=…), and check its permissions and free space"
            ) from error


class _Commits:
    """What both kinds of targets do: files that have all their columns, and one transaction."""

    log: DeltaLog
    given: Any

    def commit(
        self,
        run: str,
        version: int,
        parts: Sequence[PartFile],
        staging: Location,
        *,
        is_first: bool,
    ) -> list[PartFile]:
        """Add parts to the table unless they are in it; return them as they are there."""
        if not parts:
            if self.given is not None and is_first:
                self.log.create(self.given)
            return []
        if self.log.version_of(run) >= version:
            return []
        columns = self._columns(parts)
        whole = [widened(part, staging, columns) for part in parts]
        self._move(whole)
        self.log.commit(run, version, whole, columns, is_first=is_first)
        return whole

    def _columns(self, parts: Sequence[PartFile]) -> Any:
        """Return the columns, but for those that had only nulls so far: a table has no such."""
        found, null = schema_of(parts), arrow().null()
        known = self.log.columns() if self.log.exists and self.given is None else None
        if known is not None and not self._overwrites:
            found = unified([known, found])
        return arrow().schema([field for field in found if field.type != null])

    @property
    def _overwrites(self) -> bool:
        return self.log._mode == "overwrite"

    def _move(self, parts: Sequence[PartFile]) -> None:
        return


class LocalTable(_Commits, LocalFolder):
    """A table on a disk. Files are staged beside it, and moved in just before they are added."""

    def __init__(self, location: Location, log: DeltaLog, given: Any) -> None:
        super().__init__(location)
        self.log, self.given, self._run = log, given, ""

    def begin(self, run: str, kept: Collection[PartFile]) -> None:
        self._run = run
        super().begin(run, kept)

    def publish_first(self, run: str, parts: Sequence[PartFile], version: int = 1) -> None:
        self.commit(run, version, parts, self.staging, is_first=True)

    def publish_more(self, parts: Sequence[PartFile], version: int = 1) -> None:
        self.commit(self._run, version, parts, self.staging, is_first=False)

    def _move(self, parts: Sequence[PartFile]) -> None:
        self.target.mkdir(exist_ok=True)
        super().publish_more(parts)

    def _fetch(self, part: PartFile) -> None:
        if self.log.version_of(self._run):
            with_copy = self.target / part.name
            if with_copy.exists() and not (self._staging / part.name).exists():
                (self._staging / part.name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(with_copy, self._staging / part.name)
                return
        super()._fetch(part)


class ObjectTable(_Commits):
    """A table in an object store. Files are written into it, and count when they are added."""

    def __init__(self, location: Location, log: DeltaLog, given: Any) -> None:
        self.staging, self.log, self.given, self._run = location, log, given, ""

    def begin(self, run: str, kept: Collection[PartFile]) -> None:
        self._run = run
        if gone := [part.name for part in kept if not (self.staging / part.name).is_file()]:
            raise FlowError(f"{self.staging / gone[0]}: it was saved and is gone; begin a new run")

    def publish_first(self, run: str, parts: Sequence[PartFile], version: int = 1) -> None:
        self.commit(run, version, parts, self.staging, is_first=True)

    def publish_more(self, parts: Sequence[PartFile], version: int = 1) -> None:
        self.commit(self._run, version, parts, self.staging, is_first=False)

    def end(self) -> None:
        return

    let_go = end


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
