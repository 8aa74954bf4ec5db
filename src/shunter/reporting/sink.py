"""The sink of the report's flow: keeps summaries, and publishes the page when all are there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shunter.errors import FlowError, StagingError
from shunter.reporting.document import HistoryReport, assembled
from shunter.reporting.html import page_of
from shunter.reporting.plots import matplotlib
from shunter.rerun.files import staged_file


class WriteReport:
    """Writes the page to `path`, or only keeps the `report` where that is None.

    `made` and `since` are the moments that it says it was made at, and that it begins at.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, *, made: float, since: float | None
    ) -> None:
        self._path = None if path is None else Path(path)
        self._made, self._since = made, since
        self._summaries: list[dict[str, Any]] = []
        self.report: HistoryReport | None = None

    def open(self, saved: list[dict[str, Any]] | None) -> None:
        self._summaries = list(saved or [])
        if self._path is not None:
            matplotlib()
            if not self._path.absolute().parent.is_dir():
                raise FlowError(f"{self._path}: there is no such folder; make it first")

    def write(self, events: Sequence[dict[str, Any]]) -> int:
        self._summaries += events
        return len(events)

    def checkpoint(self) -> list[dict[str, Any]]:
        return list(self._summaries)

    def close(self) -> None:
        self.report = assembled(self._summaries, made=self._made, since=self._since)
        if self._path is None:
            return
        page = page_of(self.report)
        try:
            with staged_file(self._path, run="report") as file:
                file.write(page)
        except (StagingError, OSError) as error:
            raise FlowError(f"{self._path}: the report can't be written: {error}") from error

    def abandon(self) -> None:
        return
