"""Files that any number of tasks write at once, and one step publishes.

A worker that has checkpoints (in one process, on engines) writes a part between two of them; each
of Spark's tasks writes its own, and so does each of several workers (`task_files.py`). Parts are
staged under names that no other try has, and a list of them is what `publish` gets. Where they are
staged and published is decided by a *target*.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from shunter.durable_files import sync
from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.location import AnyPath, Location, file_faults
from shunter.flow.sinks.formats import Format
from shunter.flow.sinks.growing_file import check_target
from shunter.flow.sinks.local_target import LocalFolder
from shunter.flow.sinks.object_target import ObjectFolder
from shunter.flow.sinks.part_writer import PartWriter
from shunter.flow.sinks.parts import PartFile, PartNames, packed, schema_of, unpacked
from shunter.flow.sinks.renamed_target import RenamedFolder
from shunter.flow.sinks.single_file import LocalFile
from shunter.flow.sinks.task_files import FileShare, TaskFiles

RUN_BYTES = 16

MODES = ("overwrite", "append", "error")


class Target(Protocol):
    """Where parts are staged and published. All but `staging` is for one process at a time."""

    @property
    def staging(self) -> Location:
        """The folder that parts are written into."""

    def begin(self, run: str, kept: Collection[PartFile]) -> None:
        """Make room for a run; parts that are kept must be there, others are swept."""

    def publish_first(self, run: str, parts: Sequence[PartFile], version: int) -> None:
        """Let these be all that there is, or with mode "append" add them; in one step.

        `version` rises with what the run publishes, for targets that keep a ledger.
        """

    def publish_more(self, parts: Sequence[PartFile], version: int) -> None:
        """Add parts to what was published; may be done again."""

    def end(self) -> None:
        """All is published: nothing needs to stay staged."""

    def let_go(self) -> None:
        """Leave what is staged to the next run."""


def new_run() -> str:
    """Name a run as no other is named."""
    return secrets.token_hex(RUN_BYTES)


class FileSink:
    """The base of sinks that write files. `files` is how many there are to be, if that is said."""

    def __init__(
        self,
        path: AnyPath,
        form: Format,
        *,
        partition_by: str | Sequence[str] = (),
        mode: str = "overwrite",
        files: int | None = None,
    ) -> None:
        kind = type(self).__name__
        if mode not in MODES:
            raise FlowError(f"{kind}: mode is {mode!r}; say one of {', '.join(map(repr, MODES))}")
        if files is not None and (not isinstance(files, int) or files < 1):
            raise FlowError(f"{kind}: files is {files!r}; ask for 1 or more")
        self.path, self._format = path, form
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else (*partition_by,)
        self.mode, self.files = mode, files
        self._target: Target | None = None
        self._writer: PartWriter | None = None
        self._run, self._names = "", PartNames("", "")
        self._parts: list[PartFile] = []
        self._shown: int | None = None

    @property
    def location(self) -> Location:
        """Where it writes; a relative path is from where the process is when it runs."""
        return Location.of(self.path)

    # ---- one worker, with checkpoints

    def check(self) -> None:
        """Raise a FlowError if nothing can be written there."""
        if self.location.is_local:
            self._check_place(Path(os.path.realpath(self.location.path)))
        if self.mode == "error" and self._has_output():
            raise FlowError(
                f'{self.location} is there already, and mode is "error"; remove it, or say '
                'mode="overwrite" or mode="append"'
            )

    def _check_place(self, target: Path) -> None:
        check_target(target, is_folder=True)

    def open(self, saved: Any | None) -> None:
        self._shown = None
        self._open(saved)

    def open_shown(self, saved: Any | None) -> None:
        self._shown = 0
        self._open(saved)

    def _open(self, saved: Any | None) -> None:
        self.abandon()
        run, number, shown, schemas, parts = saved or (new_run(), 0, 0, [], [])
        if saved is None:
            self.check()
        self._run, self._names = run, PartNames(run, self._format.suffix, number)
        self._parts = unpacked(schemas, parts)
        self._shown = shown if self._shown is not None else None
        self._target = self._new_target(is_single=False)
        self._target.begin(run, self._parts)
        columns = self._known_columns()
        self._writer = PartWriter(
            self._target.staging,
            self._format,
            self._names,
            partition_by=self.partition_by,
            known=[*self._parts, *(PartFile("", 0, 0, schema) for schema in (*schemas, columns))],
        )

    def write(self, events: Sequence[Any]) -> int:
        assert self._writer is not None, "not open"
        self._writer.write(events)
        return len(events)

    def checkpoint(self) -> Any:
        assert self._writer is not None, "not open"
        self._parts += self._writer.finish()
        schemas, parts = packed(self._parts)
        if not schemas and (known := self._writer.schema_bytes):
            schemas = [known]
        return [self._run, self._names.number, self._shown or 0, schemas, parts]

    def publish(self) -> None:
        """Show what the last checkpoint holds; what is shown need not be saved any more."""
        assert self._target is not None, "not open"
        assert self._shown is not None, "opened to be seen at the end alone"
        if self._shown:
            self._target.publish_more(self._parts, self._names.number)
        elif self._parts:
            self._publish_all(self._target, self._parts, self._names.number)
        self._shown += len(self._parts)
        self._parts = []

    def close(self) -> None:
        if self._target is None:
            return
        self.checkpoint()
        if self._shown is not None and (self._shown or self._parts):
            self.publish()
        else:
            self._publish_all(self._target, self._parts)
        self._target.end()
        self._target = self._writer = None

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
        if self._target is not None:
            self._target.let_go()
        self._target = self._writer = None

    def __del__(self) -> None:
        self.abandon()

    # ---- many tasks, or several workers

    @property
    def is_shared(self) -> bool:
        """True if several workers write one output, which one process publishes for all."""
        return True

    def share(self, index: int, run: str) -> FileShare:
        """Return the sink of one of several workers, for a run that was begun by `resumed`."""
        staging = self._new_target(is_single=False, run=run).staging
        known = self._known_columns()
        return FileShare(TaskFiles(staging, self._format, self.partition_by, run, known), index)

    def staged(self, run: str, *, is_single: bool) -> StagedOutput:
        """Begin a run whose parts are written by tasks; `is_single` if one task writes all."""
        self.check()
        target = self._new_target(is_single=is_single)
        target.begin(run, ())
        known = self._known_columns()
        task = TaskFiles(target.staging, self._format, self.partition_by, run, known)
        return StagedOutput(self, target, run, task)

    def resumed(self, run: str, kept: Sequence[PartFile], *, is_new: bool) -> StagedOutput:
        """Go on with a run whose parts are written by tasks and shown bit by bit."""
        if is_new:
            self.check()
        target = self._new_target(is_single=False)
        target.begin(run, kept)
        known = self._known_columns()
        return StagedOutput(
            self,
            target,
            run,
            TaskFiles(target.staging, self._format, self.partition_by, run, known),
        )

    # ---- for subclasses

    def _new_target(self, *, is_single: bool, run: str = "") -> Target:
        appends = self.mode == "append"
        if not self.location.renames:
            return ObjectFolder(self.location, appends=appends)
        if not self.location.is_local:
            return RenamedFolder(self.location, appends=appends, run=run)
        if is_single and self._may_be_one_file:
            return LocalFile(self.location)
        return LocalFolder(self.location, appends=appends, replaces_file=self._may_be_one_file)

    @property
    def _may_be_one_file(self) -> bool:
        """True if one writer makes a file of this, and not a folder."""
        return False

    def _has_output(self) -> bool:
        if self.location.is_local:
            return self.location.exists()
        return bool(self.location.files(recursive=True))

    def _known_columns(self) -> bytes:
        """Return the columns that files must fit, as a schema's bytes; empty if there are none."""
        return b""

    def _publish_all(self, target: Target, parts: Sequence[PartFile], version: int = 1) -> None:
        """Publish for the first time, with all columns in all files."""
        columns = schema_of(parts)
        whole = [widened(part, target.staging, columns) for part in parts]
        target.publish_first(self._run, whole, version)


class StagedOutput:
    """A run of a sink whose parts are written by tasks, seen by who publishes them."""

    def __init__(self, sink: FileSink, target: Target, run: str, task: TaskFiles) -> None:
        self._sink, self._target, self._run = sink, target, run
        self.task = task

    def narrow(self, parts: Sequence[PartFile]) -> list[PartFile]:
        """Return the parts that lack columns which others have."""
        columns = schema_of(parts)
        return [part for part in parts if _is_narrow(part, columns)]

    def publish(self, parts: Sequence[PartFile]) -> None:
        """Show all parts, and nothing else of this run."""
        self._sink._run = self._run
        self._sink._publish_all(self._target, parts)
        self._target.end()

    def show(self, parts: Sequence[PartFile], *, is_first: bool, version: int) -> None:
        """Show some more parts of a run that goes on; may be repeated."""
        self._sink._run = self._run
        if is_first:
            self._sink._publish_all(self._target, parts, version)
        else:
            self._target.publish_more(parts, version)

    def columns_with(self, parts: Sequence[PartFile], known: bytes) -> bytes:
        """Return the columns of parts and of those before them, as a schema's bytes."""
        columns = schema_of([*parts, PartFile("", 0, 0, known)])
        return b"" if columns is None else bytes(columns.serialize())

    def end(self) -> None:
        """All is shown."""
        self._target.end()

    def let_go(self) -> None:
        """Leave what is staged, for the run goes on later."""
        self._target.let_go()

    def abandon(self) -> None:
        """The run has failed: drop what its tasks have written."""
        self._target.end()


def _is_narrow(part: PartFile, columns: Any) -> bool:
    return columns is not None and part.schema != bytes(columns.serialize())


def widened(part: PartFile, staging: Location, columns: Any) -> PartFile:
    """Return a part with all columns; it is written again if it lacks some."""
    if not _is_narrow(part, columns):
        return part
    parquet, pyarrow = arrow("pyarrow.parquet"), arrow()
    folder, _, name = part.name.rpartition("/")
    stem, dot, suffix = name.partition(".")
    wide = f"{folder}/{stem}-wide{dot}{suffix}" if folder else f"{stem}-wide{dot}{suffix}"
    with file_faults(staging), (staging / part.name).open() as source:
        table = parquet.ParquetFile(source).read()
        whole = pyarrow.concat_tables(
            [columns.empty_table(), table], promote_options="permissive"
        ).select(columns.names)
        with (staging / wide).create() as file:
            parquet.write_table(whole.cast(columns), file)
    if staging.is_local:
        sync(staging.path / wide)
    schema = bytes(columns.serialize())
    return msgspec.structs.replace(part, name=wide, size=(staging / wide).size(), schema=schema)
