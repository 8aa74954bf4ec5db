"""A flow in the middle of a user's own PySpark program: from a DataFrame to a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.checking import POLICIES
from shunter.flow.event_types import users_modules
from shunter.flow.graph import Flow, Kind
from shunter.flow.spark.column_rows import ColumnSink, EnvelopesToColumns
from shunter.flow.spark.columnar import ColumnPlan
from shunter.flow.spark.envelopes import Tallies
from shunter.flow.spark.rewriting import loose, rebuilt
from shunter.flow.spark.session import pyspark
from shunter.flow.spark.shipping import parcel
from shunter.flow.spark.slots import nodes_of
from shunter.flow.spark.sources import DataFrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def transform(
    flow: Flow,
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
    sent = parcel((flow.types, rows), users_modules(flow), what=f"flow {flow.name!r}")
    return plan.compiled.input_of(sink).mapInArrow(EnvelopesToColumns(flow.name, sent), wanted)


def _nobody(_: Tallies) -> None:
    """Nobody asks how much a DataFrame has counted."""


def _reading(flow: Flow, source: DataFrameSource) -> Flow:
    """Return the flow with another source."""
    kinds = [stage.kind for stage in flow.stages]
    if kinds.count(Kind.SOURCE) != 1 or kinds.count(Kind.SINK) != 1:
        raise FlowError(
            f"flow {flow.name!r} has {kinds.count(Kind.SOURCE)} sources and "
            f"{kinds.count(Kind.SINK)} sinks; to transform a DataFrame, let it have one of each",
            place=str(flow.where),
        )
    if flow.on_error not in POLICIES:
        raise FlowError(
            f"flow {flow.name!r}: on_error is a sink, and a DataFrame has one output; say 'stop' "
            "or 'skip'",
            place=str(flow.where),
        )
    return _rewired(flow, source)


def _rewired(flow: Flow, source: DataFrameSource) -> Flow:
    """Copy the graph, with a source that has one worker in the plan."""
    changes = {Kind.SOURCE: {"what": source, "workers": 1}}
    stages = {stage: loose(stage, **changes.get(stage.kind, {})) for stage in flow.stages}
    return rebuilt(
        flow, [(edge, stages[edge.upstream], stages[edge.downstream]) for edge in flow.edges]
    )
