"""Where the events of a flow come from: iterables, files, a clock, databases, jobs.

Names are imported when first used: who reads files needs neither SQLite nor pymongo.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.flow.sources.csv_rows import CsvRows
    from shunter.flow.sources.finished_jobs import FinishedJobs
    from shunter.flow.sources.items import Items
    from shunter.flow.sources.job_history import JobHistory
    from shunter.flow.sources.json_lines import JsonLines
    from shunter.flow.sources.mongo_documents import MongoDocuments
    from shunter.flow.sources.parquet_rows import ParquetRows
    from shunter.flow.sources.port import BadInput, Source, WithBadInput
    from shunter.flow.sources.source_argument import as_source
    from shunter.flow.sources.sqlite_rows import SqliteRows
    from shunter.flow.sources.text_lines import TextLines
    from shunter.flow.sources.ticks import Ticks
    from shunter.flow.sources.watermarked import Watermarked

__all__ = [
    "BadInput",
    "CsvRows",
    "FinishedJobs",
    "Items",
    "JobHistory",
    "JsonLines",
    "MongoDocuments",
    "ParquetRows",
    "Source",
    "SqliteRows",
    "TextLines",
    "Ticks",
    "Watermarked",
    "WithBadInput",
    "as_source",
]

_HOMES = {
    "BadInput": "port",
    "CsvRows": "csv_rows",
    "FinishedJobs": "finished_jobs",
    "Items": "items",
    "JobHistory": "job_history",
    "JsonLines": "json_lines",
    "MongoDocuments": "mongo_documents",
    "ParquetRows": "parquet_rows",
    "Source": "port",
    "SqliteRows": "sqlite_rows",
    "TextLines": "text_lines",
    "Ticks": "ticks",
    "Watermarked": "watermarked",
    "WithBadInput": "port",
    "as_source": "source_argument",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
