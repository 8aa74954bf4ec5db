"""What `shunter flow check` says about a flow on Spark, without starting it."""

from __future__ import annotations

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runners.spark.columns.column_types import Shape, agreed, shape_of, shape_of_arrow
from shunter.flow.runners.spark.columns.native_stages import natives
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.sources import ParquetRows


def explained(flow: FlowGraph) -> list[str]:
    """Say, for each aggregate and frame, how Spark will do it.

    Nothing is said behind a DataFrame, whose columns only Spark knows.
    """
    if any(isinstance(stage.what, DataFrameSource) for stage in flow.stages):
        return []
    lines = []
    for stage, decided in natives(flow, _columns_in_files).items():
        how = "in Spark's own columns"
        if isinstance(decided, str):
            how = f"in Python, for {decided}"
        elif stage.kind is StageKind.AGGREGATE and not decided.is_direct:
            how = "in Spark's own columns, which the functions before it fill"
        lines.append(f"{stage.name} ({stage.kind}) runs {how}")
    return lines


def _columns_in_files(source: Stage) -> Shape | None:
    if not isinstance(source.what, ParquetRows):
        return None
    try:
        files = source.what.alike()
    except (FlowError, OSError):
        return None
    if files is None:
        return None
    kinds = shape_of_arrow(files.schema)
    of_type = shape_of(source.what.event_type)
    return kinds if source.what.event_type is None else agreed(kinds, of_type or {})
