"""Which sources are known to send no instruction. Pure."""

from __future__ import annotations

from typing import Any

from shunter.flow.graph.instructions import Instruction
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.sources import (
    CsvRows,
    JsonLines,
    MongoDocuments,
    ParquetRows,
    SqliteRows,
    TextLines,
)

SILENT = (
    CsvRows, JsonLines, MongoDocuments, ParquetRows, SqliteRows, TextLines, DataFrameSource,
)  # fmt: skip
"""Sources that never send an instruction."""


def is_silent(source: Any) -> bool:
    """True if a source is known to send no instructions."""
    if isinstance(source, list | tuple):
        return Instruction not in map(type, source)
    return isinstance(source, (*SILENT, range))
