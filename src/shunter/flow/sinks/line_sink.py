"""Files of lines: one worker with checkpoints makes a file that grows, all others write parts."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from shunter.flow.sinks.appended_file import AppendedFile
from shunter.flow.sinks.file_sink import FileSink
from shunter.flow.sinks.growing_file import GrowingFile, check_target, part_of
from shunter.flow.sinks.single_file import is_folder_of_parts


class LineSink(FileSink):
    """The base of sinks whose files can be cut and continued at any line."""

    _growing: GrowingFile | AppendedFile | None = None

    @abstractmethod
    def _begin(self, columns: Any) -> bytes:
        """Begin a file, or go on with one that has these columns; return its first line."""

    @abstractmethod
    def _encoded(self, events: Sequence[Any]) -> bytes:
        """Return events as lines."""

    @property
    def _memory(self) -> Any:
        """What `_begin` needs to go on with a file."""
        return None

    @property
    def names_a_file(self) -> bool:
        """True if the path has a suffix, as a file has, and one file will do."""
        return self._may_be_one_file and bool(PurePath(self.path).suffix)

    @property
    def _may_be_one_file(self) -> bool:
        is_plain = not self.partition_by and not self._format.suffix.endswith((".gz", ".zst"))
        return is_plain and self.mode != "append" and self.location.is_local

    @property
    def is_shared(self) -> bool:
        return not self.names_a_file

    def part(self, index: int, count: int) -> LineSink:
        """Return the sink of one of several workers if a file was named: it has one of its own."""
        return self._at(str(part_of(self.location.path, index, count)))

    @abstractmethod
    def _at(self, path: str) -> LineSink:
        """Return the same sink for another path."""

    def _check_place(self, target: Path) -> None:
        is_file = self.names_a_file and not is_folder_of_parts(target)
        check_target(target, is_folder=not is_file and target.is_dir())

    def open(self, saved: Any | None) -> None:
        if self._may_be_one_file:
            self._grow(GrowingFile(self._real_path), saved)
        else:
            super().open(saved)

    def open_shown(self, saved: Any | None) -> None:
        if self._may_be_one_file:
            self._grow(AppendedFile(self._real_path), saved)
        else:
            super().open_shown(saved)

    def write(self, events: Sequence[Any]) -> int:
        if self._growing is None:
            return super().write(events)
        self._growing.append(self._encoded(events))
        return len(events)

    def checkpoint(self) -> Any:
        if self._growing is None:
            return super().checkpoint()
        return [self._growing.checkpoint(), self._memory]

    def publish(self) -> None:
        if self._growing is None:
            super().publish()
            return
        assert isinstance(self._growing, AppendedFile), "opened to be seen at the end alone"
        self._growing.publish()

    def close(self) -> None:
        if self._growing is None:
            super().close()
            return
        self._growing.close()
        self._growing = None

    def abandon(self) -> None:
        if self._growing is not None:
            self._growing.let_go()
            self._growing = None
        super().abandon()

    @property
    def _real_path(self) -> Path:
        return Path(os.path.realpath(self.location.path))

    def _grow(self, file: GrowingFile | AppendedFile, saved: Any | None) -> None:
        self.abandon()
        if saved is None:
            self.check()
        position, memory = saved or (None, None)
        self._growing = file
        file.open(position)
        if first := self._begin(memory):
            file.append(first)
