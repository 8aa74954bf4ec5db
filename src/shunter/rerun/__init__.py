"""For handlers that can be run again: upserts, and staging that is published in one step.

Names are imported when first used: who writes files needs neither SQLite nor pymongo.
Guide: docs/guide/reruns.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.errors import StagingError, Superseded
    from shunter.rerun.directories import staged_directory
    from shunter.rerun.files import staged_file, staged_path
    from shunter.rerun.mongo_collections import staged_collection, sweep_collections
    from shunter.rerun.mongo_documents import upsert_documents
    from shunter.rerun.sqlite_rows import upsert_rows
    from shunter.rerun.sqlite_tables import StagedTable, staged_table, sweep_tables
    from shunter.rerun.staging_folder import sweep_files
    from shunter.rerun.staging_names import Owner

__all__ = [
    "Owner",
    "StagedTable",
    "StagingError",
    "Superseded",
    "staged_collection",
    "staged_directory",
    "staged_file",
    "staged_path",
    "staged_table",
    "sweep_collections",
    "sweep_files",
    "sweep_tables",
    "upsert_documents",
    "upsert_rows",
]

_HOMES = {
    "shunter.errors": ("StagingError", "Superseded"),
    "shunter.rerun.directories": ("staged_directory",),
    "shunter.rerun.files": ("staged_file", "staged_path"),
    "shunter.rerun.mongo_collections": ("staged_collection", "sweep_collections"),
    "shunter.rerun.mongo_documents": ("upsert_documents",),
    "shunter.rerun.staging_names": ("Owner",),
    "shunter.rerun.sqlite_rows": ("upsert_rows",),
    "shunter.rerun.sqlite_tables": ("StagedTable", "staged_table", "sweep_tables"),
    "shunter.rerun.staging_folder": ("sweep_files",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'shunter.rerun' has no attribute {name!r}")
