"""What a stream has committed, batch by batch, and whose it is: files at its checkpoint's place.

    flow.json                  that this is the checkpoint of a stream, and of which flow
    epochs/EPOCH.json          one for each driver: who it is, its flow, and where it goes on
    commits/EPOCH-BATCH.json   where sources, sinks and states stood after a batch
    states/, spark/            what workers keep, and what Spark keeps

A driver takes over by an epoch above all others. It then lists the commits, and only when it has
written into its epoch which one it goes on from does it change anything else. From then on commits
of older epochs don't count, whenever they arrive: so no store needs locks or conditional writes. A
driver looks before and after each commit whether its epoch is still the highest, and publishes
nothing if it is not. Where the checkpoint is on a disk, a lock also keeps another from taking over
while sinks publish.
"""

from __future__ import annotations

import base64
import fcntl
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.identity import Identity
from shunter.flow.runners.spark.stream.states import Head, state_faults

LOCK_SECONDS = 30.0
KEPT = 2
"""How many commits stay: the last, and one before it."""

Counts = dict[str, tuple[int, int, int]]
"""By stage: events taken, given and failed since the stream began."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What counts after a batch. `is_end`: it was the last; `is_closed`: nothing is left to do.

    `offsets` has, by worker of a source, the line of Spark's log that says how far it was read;
    `log_head` is what stands above these lines there.
    """

    batch: int
    sinks: dict[str, str]
    states: dict[str, list[Head]]
    counts: Counts
    offsets: dict[str, str] = {}
    log_head: list[str] = []
    is_end: bool = False
    is_closed: bool = False

    def position(self, worker: str) -> Any:
        """Return where a worker of a sink stood; None if it is a new one."""
        position = self.sinks.get(worker)
        return None if position is None else msgspec.msgpack.decode(base64.b64decode(position))


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """A driver. `after` names the commit that it goes on from; None until it knows, "" for none."""

    owner: str
    identity: Identity | None = None
    after: str | None = None


def written(positions: Mapping[str, Any]) -> dict[str, str]:
    """Return what sinks have said as texts."""
    return {
        worker: base64.b64encode(msgspec.msgpack.encode(position)).decode()
        for worker, position in positions.items()
    }


class Ledger:
    """The commits of one stream, for the driver with this token."""

    def __init__(self, folder: Location | Path, token: str) -> None:
        self.folder, self._token = Location.of(folder), token
        self._commits, self._epochs = self.folder / "commits", self.folder / "epochs"
        self._epoch = ""
        self._own: list[str] = []

    # ---- reading

    def last(self) -> Commit | None:
        """Return the newest commit that counts; None if there is none."""
        name = self._last_name()
        return None if name is None else self._read(self._commits / name, Commit)

    def identity(self) -> Identity | None:
        """Return of which flow the newest commit is; None if there is none."""
        name = self._last_name()
        if name is None:
            return None
        epoch: Epoch = self._read(self._epochs / f"{_epoch_of(name)}.json", Epoch)
        return epoch.identity

    def _last_name(self) -> str | None:
        names = _names(self._commits)
        for epoch in sorted(_names(self._epochs), reverse=True):
            own = [name for name in names if _epoch_of(name) == epoch.removesuffix(".json")]
            if own:
                return max(own)
            if (after := self._read(self._epochs / epoch, Epoch).after) is not None:
                return after or None
        return None

    def _read(self, location: Location, kind: Any) -> Any:
        try:
            return msgspec.json.decode(location.read(), type=kind)
        except (msgspec.DecodeError, OSError, FlowError) as error:
            raise FlowError(
                f"{location} can't be read ({error}); the stream can't go on from there: name "
                "another folder with --checkpoints to begin anew"
            ) from error

    # ---- whose it is

    def take_over(self, identity: Identity | None = None) -> None:
        """Become the owner; whoever was it before finds out when it next commits."""
        mine = Epoch(owner=self._token, identity=identity)
        with state_faults(self.folder), self._locked():
            while not self._is_owner():
                numbers = [int(name.partition(".")[0]) for name in _names(self._epochs)]
                # The ending keeps two that take over at once apart; the higher one has it.
                self._epoch = f"{max(numbers, default=0) + 1:08d}.{uuid.uuid4().hex[:8]}"
                self._write_epoch(mine)
            self._write_epoch(msgspec.structs.replace(mine, after=self._last_name() or ""))

    def check_owner(self) -> None:
        """Raise if another driver has taken over."""
        with state_faults(self.folder):
            names = _names(self._epochs)
            if names and max(names) == f"{self._epoch}.json":
                return
            owner = "nobody: the folder was emptied"
            if names:
                owner = self._read(self._epochs / max(names), Epoch).owner
        raise FlowError(
            f"{self.folder}: the stream was taken over by {owner}, so this driver "
            f"({self._token}) ends, and has published nothing since; let the other go on"
        )

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Raise if another driver has taken over; on a disk, keep others from it meanwhile."""
        with state_faults(self.folder), self._locked():
            self.check_owner()
            yield

    def _is_owner(self) -> bool:
        return max(_names(self._epochs), default="") == f"{self._epoch}.json"

    def _write_epoch(self, epoch: Epoch) -> None:
        (self._epochs / f"{self._epoch}.json").write(msgspec.json.encode(epoch))

    # ---- committing

    def keep(self, commit: Commit) -> None:
        """Write a commit, inside of `owned`; from now on its batch counts."""
        name = f"{self._epoch}-{commit.batch:08d}.json"
        (self._commits / name).write(msgspec.json.encode(commit))
        if name not in self._own:
            self._own.append(name)
        self._sweep()
        self.check_owner()

    def _sweep(self) -> None:
        """Remove what counts no more: old commits, and at the first one all of older epochs."""
        gone = [self._commits / name for name in self._own[:-KEPT]]
        if len(self._own) == 1:
            epochs = [each for each in _names(self._epochs) if each < f"{self._epoch}.json"]
            commits = [each for each in _names(self._commits) if _epoch_of(each) < self._epoch]
            gone = [self._commits / each for each in commits]
            gone += [self._epochs / each for each in epochs]
        del self._own[:-KEPT]
        for location in gone:
            with suppress(OSError, FlowError):
                location.delete()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self.folder.is_local:
            yield
            return
        until = time.monotonic() + LOCK_SECONDS
        with open(self.folder.path / "lock", "ab") as file:
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


def _names(folder: Location) -> list[str]:
    """Return the files in a folder that were written to their ends."""
    return [each for each in (info.location.name for info in folder.files()) if _is_whole(each)]


def _is_whole(name: str) -> bool:
    return name.endswith(".json")


def _epoch_of(commit: str) -> str:
    return commit.rpartition("-")[0]
