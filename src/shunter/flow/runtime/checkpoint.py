"""What a checkpoint holds, where it may be kept, and which flow it fits. Pure."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from shunter.errors import FlowError

VERSION = 1


class Checkpoint(msgspec.Struct, frozen=True):
    """All that a run needs to go on. `is_end`: it only has to publish."""

    number: int
    fingerprint: str
    nodes: int
    snapshots: dict[str, Any]
    is_end: bool = False
    version: int = VERSION


def encoded(kept: Checkpoint) -> bytes:
    return msgspec.msgpack.encode(kept)


def decoded(body: bytes, name: str) -> Checkpoint:
    """Read a checkpoint; `name` says which, where that fails."""
    try:
        return msgspec.msgpack.decode(body, type=Checkpoint)
    except msgspec.DecodeError as error:
        raise FlowError(
            f"the checkpoint {name} can't be read: {error}; delete it to go on from the one before"
        ) from error


class CheckpointStore(Protocol):
    """Where the checkpoints of one flow are."""

    def keep(self, kept: Checkpoint) -> None:
        """Keep one more, and drop those that are too old."""

    def latest(self) -> Checkpoint | None:
        """Return the newest, or None where there is none."""

    def clear(self) -> None:
        """Forget all: the run is over."""


def check_fits(kept: Checkpoint, fingerprint: str, nodes: int) -> None:
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
