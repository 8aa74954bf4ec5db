"""Events into a file with a JSON value on each line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.sinks.appended_file import AppendedFile
from shunter.flow.sinks.growing_file import GrowingFile, check_target, part_of


class WriteJsonLines:
    """Writes each event as a line of JSON, exactly once; the file appears when all are written.

    Several workers write files of their own, such as out-00000-of-00004.jsonl.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._encoder = msgspec.json.Encoder()
        self._file: GrowingFile | AppendedFile

    def part(self, index: int, count: int) -> WriteJsonLines:
        return WriteJsonLines(part_of(self.path, index, count))

    def check(self) -> None:
        check_target(Path(os.path.realpath(self.path)))

    def open(self, saved: Any | None) -> None:
        self._file = GrowingFile(Path(os.path.realpath(self.path)))
        self._file.open(saved)

    def open_shown(self, saved: Any | None) -> None:
        self._file = AppendedFile(Path(os.path.realpath(self.path)))
        self._file.open(saved)

    def write(self, events: Sequence[Any]) -> int:
        try:
            self._file.append(self._encoder.encode_lines(events))
        except TypeError as error:
            raise FlowError(
                f"{self.path}: {error}; map events to plain values, dataclasses or structs"
            ) from error
        return len(events)

    def checkpoint(self) -> Any:
        return self._file.checkpoint()

    def publish(self) -> None:
        assert isinstance(self._file, AppendedFile), "opened to be seen at the end alone"
        self._file.publish()

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        self._file.let_go()
