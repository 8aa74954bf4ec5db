"""Checkpoints in a folder: each is one file, there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import msgspec

from shunter.errors import FlowError
from shunter.flow.engine.messages import VERSION

KEPT = 2
"""How many are kept: the newest, and one before it."""


class Kept(msgspec.Struct, frozen=True):
    """All that a run needs to go on. `is_end`: it only has to publish."""

    number: int
    fingerprint: str
    nodes: int
    snapshots: dict[str, Any]
    is_end: bool = False
    version: int = VERSION


def encoded(kept: Kept) -> bytes:
    return msgspec.msgpack.encode(kept)


def decoded(body: bytes, name: str) -> Kept:
    """Read a checkpoint; `name` says which, where that fails."""
    try:
        return msgspec.msgpack.decode(body, type=Kept)
    except msgspec.DecodeError as error:
        raise FlowError(
            f"the checkpoint {name} can't be read: {error}; delete it to go on from the one before"
        ) from error


class KeepsCheckpoints(Protocol):
    """Where the checkpoints of one flow are."""

    def keep(self, kept: Kept) -> None:
        """Keep one more, and drop those that are too old."""

    def latest(self) -> Kept | None:
        """Return the newest, or None where there is none."""

    def clear(self) -> None:
        """Forget all: the run is over."""


class Checkpoints:
    """The checkpoints of one flow, in a folder of their own."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FlowError(
                f"checkpoints can't be kept in {self._folder}: {error.strerror}; name another "
                "folder with --checkpoints"
            ) from error

    def keep(self, kept: Kept) -> None:
        """Write one to disk, and drop those that are too old."""
        path = self._folder / f"{kept.number:08d}.checkpoint"
        staged = path.with_suffix(".part")
        try:
            with open(staged, "wb") as file:
                file.write(encoded(kept))
                file.flush()
                os.fsync(file.fileno())
            os.replace(staged, path)
            _sync(self._folder)
        except OSError as error:
            raise FlowError(
                f"checkpoint {kept.number} can't be written to {self._folder}: {error.strerror}"
            ) from error
        for old in self._paths()[:-KEPT]:
            old.unlink(missing_ok=True)

    def latest(self) -> Kept | None:
        """Return the newest, or None where there is none."""
        paths = self._paths()
        if not paths:
            return None
        try:
            body = paths[-1].read_bytes()
        except OSError as error:
            raise FlowError(
                f"the checkpoint {paths[-1]} can't be read: {error.strerror}"
            ) from error
        return decoded(body, str(paths[-1]))

    def clear(self) -> None:
        """Forget all: the run is over."""
        for path in self._paths():
            path.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.checkpoint"))


def fitting(kept: Kept, fingerprint: str, nodes: int) -> None:
    """Raise where a checkpoint is of another flow, or for other nodes."""
    if kept.version != VERSION:
        raise FlowError(
            f"the checkpoint has version {kept.version} and this Shunter {VERSION}; run it with "
            "the Shunter that wrote it, or name a new folder"
        )
    if kept.fingerprint != fingerprint:
        raise FlowError(
            "the checkpoint is of another version of this flow; go on with that version, or name "
            "a new folder with --checkpoints to begin anew"
        )
    if kept.nodes != nodes:
        raise FlowError(
            f"the checkpoint is of {kept.nodes} engines, not {nodes}: keys live elsewhere then; "
            f"run with --engines {kept.nodes}"
        )


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
