"""A flow with its columns: what is Spark's own as DataFrames, and the rest in chains around it."""

from __future__ import annotations

from functools import cached_property, reduce
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.frames import FrameFunction
from shunter.flow.graph.stages import Stage, StageKind, key_name
from shunter.flow.runners.spark.batch.compiled_flow import CompiledFlow
from shunter.flow.runners.spark.batch.envelopes import StageTally, Tallies
from shunter.flow.runners.spark.columns.column_rows import ColumnSink
from shunter.flow.runners.spark.columns.column_types import (
    DATETIME,
    Shape,
    agreed,
    quoted,
    shape_of,
    shape_of_spark,
    spark_columns,
)
from shunter.flow.runners.spark.columns.expressions import aggregated
from shunter.flow.runners.spark.columns.native_stages import Native, natives, shape_behind
from shunter.flow.runners.spark.columns.plan_rewriter import CutFlow, cut
from shunter.flow.runners.spark.columns.task_tallies import TaskTallies
from shunter.flow.runners.spark.dataframe_source import TAKEN, DataFrameSource
from shunter.flow.runners.spark.session.faults import TaskFault
from shunter.flow.runners.spark.session.kinds import is_connect, pyspark
from shunter.flow.runtime.bad_events import blamed_on
from shunter.flow.sinks.parquet_folder import WriteParquet
from shunter.flow.sources import ParquetRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ColumnPlan:
    """Decides what is Spark's own, and makes DataFrames of it.

    `compiled` has the chains. `written` are sinks that Spark itself writes, where it `writes` at
    all, each with the stage whose columns go there. `decided` says of each aggregate and frame how
    it is done.
    """

    def __init__(
        self,
        flow: FlowGraph,
        session: SparkSession,
        nodes: int,
        *,
        keeps: bool = True,
        writes: bool = True,
    ) -> None:
        self._flow, self._session, self._keeps = flow, session, keeps
        self._frames: dict[Stage, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self._results: dict[Stage, tuple[int, int]] = {}
        self._source_frames: dict[Stage, DataFrame] = {}
        flow.check()
        self.decided = natives(flow, self._shape, has_tallies=not is_connect(session))
        self._natives = {s: n for s, n in self.decided.items() if isinstance(n, Native)}
        written = [stage for stage in flow.stages if writes and self._is_written(stage)]
        self.written = {stage: stage.inputs[0].upstream for stage in written}
        self._cut = self._cut_flow()
        self.compiled = CompiledFlow(self._cut.flow, session, nodes, keeps=keeps)

    def columns(self, stage: Stage) -> DataFrame:
        """Return what comes out of a stage that is Spark's own, or of a source of columns.

        Results of an aggregate have TAKEN beside them.
        """
        if stage.kind is StageKind.SOURCE:
            return self._source_frames[stage]
        if stage not in self._frames:
            made = self._made(self._natives[stage])
            self._frames[stage] = self._read_once(stage, made)
        return self._frames[stage]

    def tell(self, stage: Stage, taken: int, given: int) -> None:
        """Take what tasks that wrote the columns of a stage have counted."""
        if stage.kind is StageKind.AGGREGATE:
            self._results[stage] = taken, given

    def tallies(self, told: Tallies) -> Tallies:
        """Add to what chains and sinks have told what stages of Spark's own have done."""
        found = {**told, **(self._told.all if self._has_tasks else {})}
        for stage, counted in self._results.items():
            if not _sum(found, stage.name, _OUT):
                found[f"{stage.name} on Spark"] = {stage.name: StageTally(*counted)}
        for native in reversed(self._natives.values()):
            self._fill(found, native)
        return found

    def _fill(self, found: Tallies, native: Native) -> None:
        """Add what follows from what others have told."""
        stage = native.stage
        if stage.kind is StageKind.FRAME:
            given = [_sum(found, f"{stage.name}/out", _OUT)]
            given += [_sum(found, edge.downstream.name, _IN) for edge in stage.outputs]
            found[f"{stage.name} on Spark"] = {stage.name: StageTally(given=max(given))}
        for edge in stage.inputs if native.is_direct else ():
            source = edge.upstream
            if source.kind is StageKind.SOURCE and not _sum(found, source.name, _OUT):
                rows = _sum(found, stage.name, _IN)
                if isinstance(source.what, ParquetRows) and (files := source.what.alike()):
                    rows = files.rows
                found[f"{source.name} on Spark"] = {source.name: StageTally(given=rows)}
        if stage.kind is StageKind.FRAME:
            taken = sum(_sum(found, edge.upstream.name, _OUT) for edge in stage.inputs)
            found[f"{stage.name} before Spark"] = {stage.name: StageTally(taken)}

    def forget(self) -> None:
        """Let go of what was kept."""
        self.compiled.forget()
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    # ---- what is known before

    def _shape(self, source: Stage) -> Shape | None:
        """Return the columns of a source that Spark can read; its DataFrame is remembered."""
        if source not in self._source_frames:
            frame = self._frame_of(source.what)
            if frame is None:
                return None
            self._source_frames[source] = frame
        found = shape_of_spark(self._source_frames[source].schema)
        of_type = shape_of(source.what.event_type)
        if source.what.event_type is None:
            return found
        return agreed(found, of_type or {})

    def _frame_of(self, source: Any) -> DataFrame | None:
        if isinstance(source, DataFrameSource):
            return source.frame(self._session)
        if not isinstance(source, ParquetRows) or (files := source.alike()) is None:
            return None
        if (known := spark_columns(files.schema, files.columns)) is not None:
            return self._session.read.schema(known).parquet(*files.paths)
        columns = [quoted(name) for name in files.columns]
        return self._session.read.parquet(*files.paths).select(*columns)

    def _is_written(self, stage: Stage) -> bool:
        """True if columns go into files of a sink as they are."""
        return (
            isinstance(stage.what, WriteParquet)
            and stage.what.takes_columns
            and stage.workers is None
            and len(stage.inputs) == 1
            and stage.inputs[0].upstream in self._natives
        )

    def _cut_flow(self) -> CutFlow:
        if not self._natives:
            return CutFlow(self._flow, {}, {})
        return cut(
            self._flow,
            self._natives,
            into=self._sink_before,
            out=lambda stage: DataFrameSource(
                lambda _: self.columns(stage),
                type=getattr(stage.what, "type", None),
                results_of=stage.name if stage.kind is StageKind.AGGREGATE else "",
            ),
            read=self._read,
            gone=self.written,
        )

    def _read(self, source: Stage) -> DataFrameSource | None:
        if self._shape(source) is None:
            return None
        frame = self._source_frames[source]
        return DataFrameSource(lambda _: frame, type=source.what.event_type)

    @property
    def _has_tasks(self) -> bool:
        return "_told" in vars(self)

    @cached_property
    def _told(self) -> TaskTallies:
        return TaskTallies(self._session)

    def _sink_before(self, native: Native) -> ColumnSink | None:
        """Return where chains make columns for a stage of Spark's own."""
        if native.is_direct:
            return None
        stage = native.stage
        types = pyspark("pyspark.sql.types")
        if stage.kind is StageKind.AGGREGATE:
            text = ", ".join(f"c{n} {each.kind}" for n, each in enumerate(native.columns))
        else:
            text = stage.what.schema or self._schema_of_frame(stage)
        fields = types.StructType.fromDDL(text)
        return ColumnSink(
            stage.name,
            stage.where,
            tuple(column.getter for column in native.columns),
            pyspark("pyspark.sql.pandas.types").to_arrow_schema(fields),
            fields,
            _nobody if is_connect(self._session) else self._told.add,
        )

    def _schema_of_frame(self, stage: Stage) -> str:
        shapes = [shape_behind(e.upstream, self.decided, self._shape) for e in stage.inputs]
        if not shapes[0] or any(shape != shapes[0] for shape in shapes):
            raise _fault(
                stage,
                "the types of the columns that go into it are not known; say them, as in "
                "frame(…, schema='machine string, value double'), or annotate what the function "
                "before returns as a dataclass or struct",
            )
        kinds = {name: _DATETIMES.get(kind, kind) for name, kind in shapes[0].items()}
        return ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())

    # ---- DataFrames

    def _made(self, native: Native) -> DataFrame:
        stage = native.stage
        frame = self._input(native)
        if stage.kind is StageKind.FRAME:
            return self._framed(stage, frame)
        own = [column.getter.name for column in native.columns]
        names = own if native.is_direct else [f"c{number}" for number in range(len(own))]
        if missing := [name for name in names if name not in frame.columns]:
            has = ", ".join(frame.columns)
            raise _fault(stage, f"there is no column {missing[0]!r} before it; there are {has}")
        return aggregated(
            frame, stage.what, key_name(stage.inputs), names, bad_time=self._bad_time(stage)
        )

    def _input(self, native: Native) -> DataFrame:
        stage = native.stage
        if not native.is_direct:
            return self.compiled.columns_into(self._cut.into[stage])
        frames = [self.columns(edge.upstream).drop(TAKEN) for edge in stage.inputs]
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _framed(self, stage: Stage, frame: DataFrame) -> DataFrame:
        what: FrameFunction = stage.what
        with blamed_on(stage, "frame"):
            made = what.function(frame)
        if not hasattr(made, "mapInArrow"):
            raise _fault(stage, f"its function returned {made!r}; let it return a DataFrame")
        return made

    def _bad_time(self, stage: Stage) -> str | None:
        """Say what ends the run at an event whose time is none; None is to leave it out."""
        if self._flow.on_error == "skip":
            return None
        return str(
            TaskFault(_fault(stage, "the time of an event is missing, or is no number; mend it"))
        )

    def _read_once(self, stage: Stage, made: DataFrame) -> DataFrame:
        if len(stage.outputs) < 2 or not self._keeps:
            return made
        self._kept.append(made.persist(pyspark().StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]


_IN: attrgetter[int] = attrgetter("taken")
_OUT: attrgetter[int] = attrgetter("given")


def _sum(tallies: Tallies, name: str, what: attrgetter[int]) -> int:
    return sum(what(stages[name]) for stages in tallies.values() if name in stages)


_DATETIMES = {DATETIME: "timestamp"}


def _nobody(_: Tallies) -> None:
    """Spark Connect has no way back for what tasks count."""


def _fault(stage: Stage, reason: str) -> FlowError:
    return FlowError(reason, stage=stage.name, place=str(stage.where))
