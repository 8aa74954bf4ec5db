"""Checkpoints in a folder: each is one file, there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from shunter.durable_files import write_whole
from shunter.errors import FlowError
from shunter.flow.runtime.checkpoint import Checkpoint, decoded, encoded

KEPT = 2
"""How many are kept: the newest, and one before it."""


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

    def keep(self, kept: Checkpoint) -> None:
        """Write one to disk, and drop those that are too old."""
        path = self._folder / f"{kept.number:08d}.checkpoint"
        staged = path.with_suffix(".part")
        try:
            write_whole(path, encoded(kept), staged=staged)
        except OSError as error:
            raise FlowError(
                f"checkpoint {kept.number} can't be written to {self._folder}: {error.strerror}"
            ) from error
        for old in self._paths()[:-KEPT]:
            old.unlink(missing_ok=True)

    def latest(self) -> Checkpoint | None:
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
