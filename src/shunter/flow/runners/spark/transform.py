"""A flow in the middle of a user's own PySpark program: from a DataFrame to a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.graph.checks import POLICIES
from shunter.flow.graph.event_types import users_modules
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import StageKind
from shunter.flow.runners.spark.batch.envelopes import Tallies
from shunter.flow.runners.spark.columns.column_plan import ColumnPlan
from shunter.flow.runners.spark.columns.column_rows import ColumnSink, EnvelopesToColumns
from shunter.flow.runners.spark.columns.plan_rewriter import loose, rebuilt
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.session.kinds import pyspark
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runners.spark.shipping.shipped_code import shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def transform(
    flow: FlowGraph,
    frame: DataFrame,
    schema: str | StructType,
    *,
    type: Any = None,  # noqa: A002
    nodes: int | None = None,
) -> DataFrame:
    """Return what a flow makes of a DataFrame, as a DataFrame with this schema.

    The rows take the place of what its one source gives, as dicts or objects of `type`; what
    would go into its one sink comes out, and must have fields. It runs when Spark reads it.
    """
    session = frame.sparkSession
    given = _reading(flow, DataFrameSource(lambda _: frame, type=type))
    plan = ColumnPlan(given, session, nodes or nodes_of(session), keeps=False, writes=False)
    plan.compiled.compile()
    types = pyspark("pyspark.sql.types")
    wanted = types.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    arrow_schema = pyspark("pyspark.sql.pandas.types").to_arrow_schema(wanted)
    [sink] = plan.compiled.sinks
    [stage] = sink.stages
    rows = ColumnSink(stage.name, stage.where, (), arrow_schema, wanted, _nobody)
    sent = shipped((flow.types, rows), users_modules(flow), what=f"flow {flow.name!r}")
    return plan.compiled.input_of(sink).mapInArrow(EnvelopesToColumns(flow.name, sent), wanted)


def _nobody(_: Tallies) -> None:
    """Nobody asks how much a DataFrame has counted."""


def _reading(flow: FlowGraph, source: DataFrameSource) -> FlowGraph:
    """Return the flow with another source."""
    kinds = [stage.kind for stage in flow.stages]
    if kinds.count(StageKind.SOURCE) != 1 or kinds.count(StageKind.SINK) != 1:
        raise FlowError(
            f"flow {flow.name!r} has {kinds.count(StageKind.SOURCE)} sources and "
            f"{kinds.count(StageKind.SINK)} sinks; to transform a DataFrame, "
            "let it have one of each",
            place=str(flow.where),
        )
    if flow.on_error not in POLICIES:
        raise FlowError(
            f"flow {flow.name!r}: on_error is a sink, and a DataFrame has one output; say 'stop' "
            "or 'skip'",
            place=str(flow.where),
        )
    return _rewired(flow, source)


def _rewired(flow: FlowGraph, source: DataFrameSource) -> FlowGraph:
    """Copy the graph, with a source that has one worker in the plan."""
    changes = {StageKind.SOURCE: {"what": source, "workers": 1}}
    stages = {stage: loose(stage, **changes.get(stage.kind, {})) for stage in flow.stages}
    return rebuilt(
        flow, [(edge, stages[edge.upstream], stages[edge.downstream]) for edge in flow.edges]
    )
