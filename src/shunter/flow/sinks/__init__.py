"""Where the events of a flow end: files, databases, jobs, functions, memory.

Names are imported when first used: who writes files needs neither SQLite nor pymongo.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.flow.sinks.calls import Each, Print
    from shunter.flow.sinks.csv_file import WriteCsv
    from shunter.flow.sinks.delta_table import WriteDelta
    from shunter.flow.sinks.in_memory import Collect, CountEvents
    from shunter.flow.sinks.jobs import SubmitJobs
    from shunter.flow.sinks.json_lines_file import WriteJsonLines
    from shunter.flow.sinks.mongo_collection import UpsertDocuments
    from shunter.flow.sinks.parquet_folder import WriteParquet
    from shunter.flow.sinks.port import Sink
    from shunter.flow.sinks.sink_argument import as_sink
    from shunter.flow.sinks.sqlite_table import UpsertRows

__all__ = [
    "Collect",
    "CountEvents",
    "Each",
    "Print",
    "Sink",
    "SubmitJobs",
    "UpsertDocuments",
    "UpsertRows",
    "WriteCsv",
    "WriteDelta",
    "WriteJsonLines",
    "WriteParquet",
    "as_sink",
]

_HOMES = {
    "Collect": "in_memory",
    "CountEvents": "in_memory",
    "Each": "calls",
    "Print": "calls",
    "Sink": "port",
    "SubmitJobs": "jobs",
    "UpsertDocuments": "mongo_collection",
    "UpsertRows": "sqlite_table",
    "WriteCsv": "csv_file",
    "WriteDelta": "delta_table",
    "WriteJsonLines": "json_lines_file",
    "WriteParquet": "parquet_folder",
    "as_sink": "sink_argument",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
