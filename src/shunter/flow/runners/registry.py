"""All runners, by name: the command line, `Flow.run`, jobs and tests take them from here."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import OnProgress, Runner, RunOptions, RunReport, ShouldStop

DEFAULT = "spark"

_HOMES = {
    "spark": ("shunter.flow.runners.spark.runner", "SparkRunner"),
    "engines": ("shunter.flow.runners.engines.runner", "EnginesRunner"),
    "local": ("shunter.flow.runners.local", "LocalRunner"),
}

NAMES = tuple(_HOMES)


def runner(name: str = DEFAULT) -> Runner:
    """Return the runner of this name; what it needs is imported now."""
    if name not in _HOMES:
        raise FlowError(f"there is no runner {name!r}; there are {', '.join(NAMES)}")
    module, kind = _HOMES[name]
    made: Runner = getattr(importlib.import_module(module), kind)()
    return made


def run_flow(
    flow: FlowGraph,
    on: Any = DEFAULT,
    *,
    on_progress: OnProgress = lambda _: None,
    should_stop: ShouldStop = lambda: False,
    **options: Any,
) -> RunReport:
    """Run a flow on the runner of this name, or on a SparkSession; return what stages have done."""
    chosen = RunOptions.of(**options)
    if hasattr(on, "range") and hasattr(on, "createDataFrame"):
        on, chosen = "spark", replace(chosen, session=on)
    if on not in _HOMES:
        raise FlowError(
            f"flow {flow.name!r} can't run on {on!r}; say {', '.join(map(repr, NAMES))}, or pass a "
            "SparkSession"
        )
    return runner(on).run(flow, chosen, on_progress, should_stop)
