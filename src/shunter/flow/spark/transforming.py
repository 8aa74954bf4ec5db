"""A flow in the middle of a user's own PySpark program: from a DataFrame to a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain as joined
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.checking import POLICIES
from shunter.flow.codec import Codec
from shunter.flow.event_types import users_modules
from shunter.flow.graph import Edge, Flow, Kind, Stage
from shunter.flow.instructions import END_OF_STREAM, Instruction
from shunter.flow.sinks.records import records_of
from shunter.flow.sources.arrow import arrow
from shunter.flow.spark.compiling import CompiledFlow
from shunter.flow.spark.envelopes import Clock, EnvelopeInbox, rows_in
from shunter.flow.spark.faults import marked_faults
from shunter.flow.spark.session import pyspark
from shunter.flow.spark.shipping import Parcel, parcel
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
    compiled = CompiledFlow(
        given, session, nodes or session.sparkContext.defaultParallelism, keeps=False
    )
    compiled.compile()
    types = pyspark("pyspark.sql.types")
    wanted = types.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    arrow_schema = pyspark("pyspark.sql.pandas.types").to_arrow_schema(wanted)
    sent = parcel(flow.types, users_modules(flow), what=f"flow {flow.name!r}")
    [sink] = compiled.sinks
    return compiled.input_of(sink).mapInArrow(_RowsOut(flow.name, sent, arrow_schema), wanted)


@dataclass
class _RowsOut:
    """Makes rows of the user's of envelopes."""

    flow: str
    types: Parcel
    schema: Any

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with marked_faults(self.flow):
            rows = joined.from_iterable(map(rows_in, batches))
            inbox = EnvelopeInbox(rows, Codec(self.types.opened()), Clock())
            while True:
                events = inbox.take(0)
                if not isinstance(events, Instruction):
                    yield self._batch(events)
                elif events.name == END_OF_STREAM:
                    return

    def _batch(self, events: list[Any]) -> Any:
        try:
            return arrow().RecordBatch.from_pylist(records_of(events), schema=self.schema)
        except (arrow().ArrowException, TypeError) as error:
            raise FlowError(
                f"flow {self.flow!r}: what it gives does not fit the schema: {error}; it is "
                f"{', '.join(f'{each.name} {each.type}' for each in self.schema)}"
            ) from error


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
    made = copy(flow)
    stages: dict[Stage, Stage] = {}
    for stage in flow.stages:
        is_source = stage.kind is Kind.SOURCE
        what, workers = (source, 1) if is_source else (stage.what, stage.workers)
        stages[stage] = replace(stage, flow=made, what=what, workers=workers, inputs=[], outputs=[])
    made.stages, made.edges = list(stages.values()), []
    for edge in flow.edges:
        up, down = stages[edge.upstream], stages[edge.downstream]
        again = Edge(edge.number, up, down, edge.route, edge.where)
        made.edges.append(again)
        up.outputs.append(again)
        down.inputs.append(again)
    return made
