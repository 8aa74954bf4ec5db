"""Flows: graphs of plain functions and classes that events pass through.

`graph/` is what a user writes, `runtime/` how events move, `runners/` where they do; `sources/`
and `sinks/` are where events come from and end. Names are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.flow.flow import Flow
    from shunter.flow.graph.aggregates import ApproxDistinct, Count, Max, Mean, Min, Sum
    from shunter.flow.graph.instructions import Instruction
    from shunter.flow.graph.windows import Window
    from shunter.flow.runners.port import RunOptions, RunReport, Stopped
    from shunter.flow.runners.spark.dataframe_source import DataFrameSource
    from shunter.flow.runners.spark.session.spark_session import spark_session

__all__ = [
    "ApproxDistinct",
    "Count",
    "DataFrameSource",
    "Flow",
    "Instruction",
    "Max",
    "Mean",
    "Min",
    "RunOptions",
    "RunReport",
    "Stopped",
    "Sum",
    "Window",
    "spark_session",
]

_HOMES = {
    "flow": ("Flow",),
    "graph.aggregates": ("ApproxDistinct", "Count", "Max", "Mean", "Min", "Sum"),
    "graph.instructions": ("Instruction",),
    "graph.windows": ("Window",),
    "runners.port": ("RunOptions", "RunReport", "Stopped"),
    "runners.spark.dataframe_source": ("DataFrameSource",),
    "runners.spark.session.spark_session": ("spark_session",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
