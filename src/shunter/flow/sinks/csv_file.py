"""Events into a CSV file, with the names of the columns on its first line, or a folder of such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shunter.errors import FlowError
from shunter.flow.location import AnyPath
from shunter.flow.sinks.formats import (
    LINE_COMPRESSIONS,
    CsvFormat,
    CsvText,
    checked_compression,
)
from shunter.flow.sinks.line_sink import LineSink

FORMULAS = ("keep", "escape")


class WriteCsv(LineSink):
    """Writes each event as a row, exactly once; the file appears when all are written.

    `columns` are the fields to write; defaults to those of the first event. One writer makes a
    file of it, many tasks a folder of part files, as `WriteJsonLines` does. `formulas` is "keep",
    or "escape" for files that people open in a spreadsheet: texts that begin as a formula does
    (= + - @, tab, line break) get a ' before them.
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        partition_by: str | Sequence[str] = (),
        mode: str = "overwrite",
        files: int | None = None,
        compression: str | None = None,
        formulas: str = "keep",
    ) -> None:
        self._compression = checked_compression(compression, LINE_COMPRESSIONS, "WriteCsv")
        self._columns = None if columns is None else tuple(columns)
        self._delimiter = delimiter
        self._formulas = formulas
        form = CsvFormat(
            str(path),
            self._columns,
            delimiter,
            compression,
            escapes_formulas=formulas == "escape",
        )
        super().__init__(path, form, partition_by=partition_by, mode=mode, files=files)
        self._form, self._text = form, CsvText(form)
        if formulas not in FORMULAS:
            names = ", ".join(map(repr, FORMULAS))
            raise FlowError(f"WriteCsv: formulas is {formulas!r}; say one of {names}")

    def _at(self, path: str) -> WriteCsv:
        return WriteCsv(
            path,
            columns=self._columns,
            delimiter=self._delimiter,
            partition_by=self.partition_by,
            mode=self.mode,
            compression=self._compression,
            formulas=self._formulas,
        )

    def _begin(self, columns: Any) -> bytes:
        self._text = CsvText(self._form, columns)
        return self._text.header()

    def _encoded(self, events: Sequence[Any]) -> bytes:
        return self._text.of(events)

    @property
    def _memory(self) -> Any:
        return self._text.columns
