"""The states of workers between two micro-batches: files at a place that all executors reach.

A worker writes one file for a batch: the keys that it has changed, and which older files of its
own still count. The file has a name that no other try has, and is safe before the batch is
committed; the commit names the newest file of each worker. What no commit leads to is swept.
"""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import tempfile
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from shunter.durable_files import flush_to_disk, sync
from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.segments import (
    TAIL,
    Segment,
    SegmentFooter,
    SegmentWriter,
    footer_in,
    footer_length,
)

FOLDER = "states"
COPY_BYTES = 1 << 22


class StateFile(msgspec.Struct, frozen=True, array_like=True):
    """The newest file of a worker, and of which stages the states in it count."""

    name: str
    stages: list[str]


Heads = Mapping[str, list[StateFile]]
"""By worker; most have one file, and those that took over from several others have more."""


class Written(msgspec.Struct, frozen=True, array_like=True):
    """What a worker has done in a batch: its new file, and those that count no more for it."""

    head: str
    stages: list[str]
    replaced: list[str]

    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> Written:
        return msgspec.json.decode(text, type=cls)


class StateFiles:
    """Those of one stream. `copies` is where an executor keeps copies of files elsewhere."""

    def __init__(self, checkpoint: str, *, copies: Path | None = None) -> None:
        self._checkpoint = Location.of(checkpoint)
        self._folder = self._checkpoint / FOLDER
        self._copies = copies

    def make(self) -> None:
        """Make the folder; who writes to it expects it to be there."""
        with state_faults(self._folder):
            self._folder.make_folder()

    def open(self, name: str) -> Segment:
        """Return a file of states, without reading more of it than is asked for."""
        with state_faults(self._folder):
            if self._folder.is_local:
                mapped = _mapped(self._folder.path / name)
            else:
                try:
                    mapped = _mapped(self._copied(name))
                except FileNotFoundError:  # a try that was given up has removed the copy
                    mapped = _mapped(self._copied(name))
        return Segment(name, memoryview(mapped))

    @contextmanager
    def new(self, batch: int, worker: str) -> Iterator[tuple[str, SegmentWriter]]:
        """Give the name of a new file, and what writes it; at the end it is safe."""
        name = f"{batch:08d}-{quote(worker, safe='')}.{uuid.uuid4().hex[:16]}"
        self._check_seen()
        with state_faults(self._folder):
            if self._folder.is_local:
                with open(self._folder.path / name, "xb") as file:
                    yield name, SegmentWriter(file)
                    flush_to_disk(file)
                sync(self._folder.path)
                return
            copy = self._copy_of(name)
            with open(copy, "xb") as file:
                yield name, SegmentWriter(file)
            with open(copy, "rb") as file, (self._folder / name).create() as there:
                shutil.copyfileobj(file, there, COPY_BYTES)

    def names(self, heads: Iterable[StateFile]) -> set[str]:
        """Return all files that these lead to."""
        found: set[str] = set()
        for head in heads:
            found.add(head.name)
            found |= {ref.name for ref in self.footer(head.name).older}
        return found

    def footer(self, name: str) -> SegmentFooter:
        """Read the footer of a file, and nothing else of it."""
        with state_faults(self._folder), (self._folder / name).open() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            length = footer_length(name, file.read())
            file.seek(max(0, size - TAIL - length))
            return footer_in(name, file.read(length))

    def drop(self, names: Iterable[str]) -> None:
        """Remove files that count no more."""
        for name in names:
            with suppress(OSError, FlowError):  # what stays is swept by the next driver
                (self._folder / name).delete()

    def sweep(self, named: Collection[str]) -> None:
        """Remove all files but those that are named."""
        with state_faults(self._folder):
            there = [info.location.name for info in self._folder.files()]
        self.drop(name for name in there if name not in named)

    def forget_copies(self, named: Collection[str], worker: str) -> None:
        """Remove this host's copies of a worker's files, but for those that are named."""
        if self._copies is None or self._folder.is_local:
            return
        for path in self._copies.glob(f"*-{quote(worker, safe='')}.*"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _check_seen(self) -> None:
        if self._folder.is_local and not self._folder.path.is_dir():
            raise FlowError(
                f"the executor on {socket.gethostname()} does not see {self._folder}; let "
                "--checkpoints name a folder that all hosts of the cluster share, or a URL such "
                "as s3://BUCKET/FOLDER"
            )

    def _copied(self, name: str) -> Path:
        copy = self._copy_of(name)
        if not copy.exists():
            staged = copy.with_name(f"{uuid.uuid4().hex}.part")
            with (self._folder / name).open() as there, open(staged, "xb") as file:
                shutil.copyfileobj(there, file, COPY_BYTES)
            staged.rename(copy)
        return copy

    def _copy_of(self, name: str) -> Path:
        if self._copies is None:
            self._copies = Path(tempfile.mkdtemp(prefix="shunter-states-"))
        self._copies.mkdir(parents=True, exist_ok=True)
        return self._copies / name


def _mapped(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class LiveFiles:
    """Which files count for which workers, so that one is removed when none needs it any more."""

    def __init__(self, by_worker: Mapping[str, Collection[str]]) -> None:
        self._users = Counter(name for names in by_worker.values() for name in set(names))

    @property
    def names(self) -> set[str]:
        return {name for name, users in self._users.items() if users > 0}

    def note(self, written: Written) -> list[str]:
        """Take in what a worker has written; return the files that nobody needs now."""
        self._users[written.head] += 1
        for name in written.replaced:
            self._users[name] -= 1
        gone = [name for name in written.replaced if self._users[name] <= 0]
        for name in gone:
            del self._users[name]
        return gone


@contextmanager
def state_faults(folder: Location | Path) -> Iterator[None]:
    """Have errors of the disk name the folder and the remedy."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error).strip().splitlines()[0]
        where = f": {error.filename}" if error.filename else ""
        raise FlowError(
            f"{folder}: the stream can't be kept there ({said}{where}); check its permissions and "
            "free space; what was committed is safe, so it can go on from there"
        ) from error


def encoded(worker: str, make: Any, *arguments: Any) -> Any:
    """Make a record; say whose state it was if that can't be done."""
    try:
        return make(*arguments)
    except (TypeError, ValueError, OverflowError) as error:
        raise FlowError(
            f"a state of {worker} can't be kept: {error}; let snapshot() return numbers, "
            "texts, lists and dicts"
        ) from error
