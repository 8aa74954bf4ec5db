"""One file on a disk that one task writes: staged beside the target, and renamed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shunter.durable_files import put_in_place
from shunter.errors import FlowError
from shunter.flow.sinks.growing_file import check_target, file_faults
from shunter.flow.sinks.local_target import LocalFolder
from shunter.flow.sinks.parts import PartFile


class LocalFile(LocalFolder):
    """A target that is one file. No part at all makes it an empty one."""

    @property
    def _staging(self) -> Path:
        return self.target.with_name(f".{self.target.name}.parts")

    def _check(self) -> None:
        if not is_folder_of_parts(self.target):
            check_target(self.target)

    def publish_first(self, run: str, parts: Sequence[PartFile], version: int = 1) -> None:
        if len(parts) > 1:
            raise FlowError(f"{self.target}: {len(parts)} tasks have written one file")
        with file_faults(self.target):
            if parts:
                staged = self._staging / parts[0].name
            else:
                staged = self._staging / "empty"
                staged.touch()
            if self.target.is_dir():
                _remove(self.target)
            put_in_place(staged, self.target)


def is_folder_of_parts(target: Path) -> bool:
    """True if another run has left a folder of part files there, and nothing else."""
    names = [path.name for path in target.iterdir()] if target.is_dir() else []
    return bool(names) and all(name.startswith("part-") for name in names)


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
