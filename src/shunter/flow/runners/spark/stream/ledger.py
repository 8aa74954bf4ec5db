"""What a stream has committed, batch by batch, and whose it is: files in its checkpoint's folder.

    flow.json        which flow this is of, and on how many nodes
    owner            the driver that may commit; a new one takes it over
    commits/…json    for each of the last batches: where sinks and states stood after it
    states/, spark/  what workers keep, and what Spark keeps

A batch counts when its commit is there. Who is no longer the owner commits and publishes nothing.
"""

from __future__ import annotations

import base64
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.runners.spark.stream.states import state_faults

LOCK_SECONDS = 30.0
KEPT = 2
"""How many commits stay: the last, and one before it."""

Counts = dict[str, tuple[int, int, int]]
"""By stage: events taken, given and failed since the stream began."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What counts after a batch. `is_end`: it was the last; `is_closed`: nothing is left to do."""

    batch: int
    sinks: dict[str, str]
    states: dict[str, str]
    counts: Counts
    is_end: bool = False
    is_closed: bool = False

    def position(self, worker: str) -> Any:
        """Return where a worker of a sink stood."""
        return msgspec.msgpack.decode(base64.b64decode(self.sinks[worker]))


def written(positions: Mapping[str, Any]) -> dict[str, str]:
    """Return what sinks have said as texts."""
    return {
        worker: base64.b64encode(msgspec.msgpack.encode(position)).decode()
        for worker, position in positions.items()
    }


class Ledger:
    """The commits of one stream, for the driver with this token."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self._token = folder, token
        self._commits = folder / "commits"
        self._owner = folder / "owner"

    def take_over(self) -> None:
        """Become the owner; whoever was it before finds out when it next commits."""
        with state_faults(self.folder), self._locked():
            self._commits.mkdir(exist_ok=True)
            _write(self._owner, self._token.encode())

    def check_owner(self) -> None:
        """Raise where another driver has taken over."""
        try:
            owner = self._owner.read_text()
        except FileNotFoundError:
            owner = "nobody: the folder was emptied"
        if owner != self._token:
            raise FlowError(
                f"{self.folder}: the stream was taken over by {owner}, so this driver "
                f"({self._token}) ends, and has published nothing since; let the other go on"
            )

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep others from taking over meanwhile; raise where one has done so."""
        with state_faults(self.folder), self._locked():
            self.check_owner()
            yield

    def last(self) -> Commit | None:
        """Return the newest commit; None where there is none."""
        paths = self._paths()
        if not paths:
            return None
        try:
            return msgspec.json.decode(paths[-1].read_bytes(), type=Commit)
        except (msgspec.DecodeError, OSError) as error:
            raise FlowError(
                f"{paths[-1]} can't be read ({error}); the stream can't go on from there: name "
                "another folder with --checkpoints to begin anew"
            ) from error

    def keep(self, commit: Commit) -> None:
        """Write a commit, inside of `owned`; from now on its batch counts."""
        _write(self._commits / f"{commit.batch:08d}.json", msgspec.json.encode(commit))
        for old in self._paths()[:-KEPT]:
            old.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        return sorted(self._commits.glob("*.json"))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        until = time.monotonic() + LOCK_SECONDS
        with open(self.folder / "lock", "ab") as file:
            while True:
                try:
                    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise FlowError(
                            f"{self.folder}: another driver has been committing there for "
                            f"{LOCK_SECONDS:.0f} s; end it, and run this again"
                        ) from None
                    time.sleep(0.02)
            yield


def _write(path: Path, body: bytes) -> None:
    """Write a file as a whole or not at all."""
    staged = path.with_suffix(".part")
    with open(staged, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.replace(staged, path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
