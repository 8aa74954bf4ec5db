"""The states of workers between two micro-batches: files in a folder that all executors see.

A file is written before the batch that made it is committed, under a name that no other try has;
the commit names those that count. Others are swept.
"""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from shunter.errors import FlowError

FOLDER = "states"


class StateFiles:
    """Those of one run, in the folder of its checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self._folder = Path(checkpoint) / FOLDER

    def make(self) -> None:
        """Make the folder; who writes to it expects it to be there."""
        with state_faults(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)

    def write(self, batch: int, worker: str, snapshot: Any) -> str:
        """Keep what a worker is after a batch, and return the name under which `read` finds it."""
        try:
            body = msgspec.msgpack.encode(snapshot)
        except (TypeError, ValueError, OverflowError) as error:
            raise FlowError(
                f"a state of {worker} can't be kept: {error}; let snapshot() return numbers, "
                "texts, lists and dicts"
            ) from error
        if not self._folder.is_dir():
            raise FlowError(
                f"the executor on {socket.gethostname()} does not see {self._folder}; let "
                "--checkpoints name a folder that all hosts of the cluster share"
            )
        name = f"{batch:08d}/{quote(worker, safe='')}.{uuid.uuid4().hex[:8]}"
        path = self._folder / name
        with state_faults(self._folder):
            path.parent.mkdir(exist_ok=True)
            with open(path, "xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
        return name

    def read(self, name: str) -> Any:
        """Return what was kept under a name."""
        with state_faults(self._folder):
            body = (self._folder / name).read_bytes()
        return msgspec.msgpack.decode(body)

    def sweep(self, named: Collection[str]) -> None:
        """Drop all files but those that are named."""
        kept = {name.partition("/")[0] for name in named}
        for folder in self._folder.iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)
                continue
            for file in folder.iterdir():
                if f"{folder.name}/{file.name}" not in named:
                    file.unlink(missing_ok=True)


@contextmanager
def state_faults(folder: Path) -> Iterator[None]:
    """Have errors of the disk name the folder and the remedy."""
    try:
        yield
    except OSError as error:
        raise FlowError(
            f"{folder}: the stream can't be kept there ({error.strerror}: {error.filename}); see "
            "to the rights and the room; what was committed is safe, so it can go on from there"
        ) from error
