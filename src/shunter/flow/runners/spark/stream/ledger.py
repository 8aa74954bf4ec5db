"""What a stream has committed, batch by batch, and whose it is: files at its checkpoint's place.

    flow.json                  that this is the checkpoint of a stream, and of which flow
    terms/TERM.json            one for each driver: who it is, its flow, and where it goes on
    commits/TERM-BATCH.json    where sources, sinks and states stood after a batch
    states/, spark/            what workers keep, and what Spark keeps

A driver takes over by a term above all others. It then lists the commits, and only when it has
written into its term which one it goes on from does it change anything else. From then on commits
of older terms don't count, whenever they arrive: so no store needs locks or conditional writes. A
driver looks before and after each commit whether its term is still the highest, and publishes
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
from shunter.flow.runners.spark.batch.envelopes import StageTally
from shunter.flow.runners.spark.stream.identity import Identity
from shunter.flow.runners.spark.stream.states import StateFile, state_faults

LOCK_SECONDS = 30.0
KEPT = 2
"""How many commits stay: the last, and one before it."""

Counts = dict[str, StageTally]
"""By stage: what it has done since the stream began."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What counts after a batch. `is_end`: it was the last; `is_closed`: nothing is left to do.

    `offsets` has, by worker of a source, the line of Spark's log that says how far it was read;
    `log_head` is what stands above these lines there.
    """

    batch: int
    sinks: dict[str, str]
    states: dict[str, list[StateFile]]
    counts: Counts
    offsets: dict[str, str] = {}
    log_head: list[str] = []
    is_end: bool = False
    is_closed: bool = False

    def position(self, worker: str) -> Any:
        """Return where a worker of a sink stood; None if it is a new one."""
        position = self.sinks.get(worker)
        return None if position is None else msgspec.msgpack.decode(base64.b64decode(position))


class DriverTerm(msgspec.Struct, frozen=True, kw_only=True):
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
        self._commits, self._terms = self.folder / "commits", self.folder / "terms"
        self._term = ""
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
        term: DriverTerm = self._read(self._terms / f"{_term_of(name)}.json", DriverTerm)
        return term.identity

    def _last_name(self) -> str | None:
        names = _names(self._commits)
        for term in sorted(_names(self._terms), reverse=True):
            own = [name for name in names if _term_of(name) == term.removesuffix(".json")]
            if own:
                return max(own)
            if (after := self._read(self._terms / term, DriverTerm).after) is not None:
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
        mine = DriverTerm(owner=self._token, identity=identity)
        with state_faults(self.folder), self._locked():
            while not self._is_owner():
                numbers = [int(name.partition(".")[0]) for name in _names(self._terms)]
                # The ending keeps two that take over at once apart; the higher one has it.
                self._term = f"{max(numbers, default=0) + 1:08d}.{uuid.uuid4().hex[:8]}"
                self._write_term(mine)
            self._write_term(msgspec.structs.replace(mine, after=self._last_name() or ""))

    def check_owner(self) -> None:
        """Raise if another driver has taken over."""
        with state_faults(self.folder):
            names = _names(self._terms)
            if names and max(names) == f"{self._term}.json":
                return
            owner = "nobody: the folder was emptied"
            if names:
                owner = self._read(self._terms / max(names), DriverTerm).owner
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
        return max(_names(self._terms), default="") == f"{self._term}.json"

    def _write_term(self, term: DriverTerm) -> None:
        (self._terms / f"{self._term}.json").write(msgspec.json.encode(term))

    # ---- committing

    def keep(self, commit: Commit) -> None:
        """Write a commit, inside of `owned`; from now on its batch counts."""
        name = f"{self._term}-{commit.batch:08d}.json"
        (self._commits / name).write(msgspec.json.encode(commit))
        if name not in self._own:
            self._own.append(name)
        self._sweep()
        self.check_owner()

    def _sweep(self) -> None:
        """Remove what counts no more: old commits, and at the first one all of older terms."""
        gone = [self._commits / name for name in self._own[:-KEPT]]
        if len(self._own) == 1:
            terms = [each for each in _names(self._terms) if each < f"{self._term}.json"]
            commits = [each for each in _names(self._commits) if _term_of(each) < self._term]
            gone = [self._commits / each for each in commits]
            gone += [self._terms / each for each in terms]
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


def _term_of(commit: str) -> str:
    return commit.rpartition("-")[0]
