"""Events into a file with a JSON value on each line, or a folder of such files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shunter.flow.location import AnyPath
from shunter.flow.sinks.formats import (
    LINE_COMPRESSIONS,
    JsonLinesFormat,
    checked_compression,
    encoded_lines,
)
from shunter.flow.sinks.line_sink import LineSink


class WriteJsonLines(LineSink):
    """Writes each event as a line of JSON, exactly once; the file appears when all are written.

    A path with a suffix, such as out.jsonl, is one file, which on Spark one task writes. Without
    one, Spark's tasks write part files into a folder of that name; so does every runner with
    `partition_by`, `compression`, mode "append", or on an object store, or with several workers.
    If a file was named, several workers in one process or on engines have files of their own, such
    as out-00000-of-00004.jsonl. `files` is how many there are to be; 1 is always one file.
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        partition_by: str | Sequence[str] = (),
        mode: str = "overwrite",
        files: int | None = None,
        compression: str | None = None,
    ) -> None:
        self._compression = checked_compression(compression, LINE_COMPRESSIONS, "WriteJsonLines")
        form = JsonLinesFormat(str(path), compression)
        super().__init__(path, form, partition_by=partition_by, mode=mode, files=files)
        self._encoder = msgspec.json.Encoder()

    def _at(self, path: str) -> WriteJsonLines:
        return WriteJsonLines(
            path,
            partition_by=self.partition_by,
            mode=self.mode,
            compression=self._compression,
        )

    def _begin(self, columns: Any) -> bytes:
        return b""

    def _encoded(self, events: Sequence[Any]) -> bytes:
        return encoded_lines(self._encoder, events, str(self.path))
