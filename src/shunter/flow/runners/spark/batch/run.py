"""Runs a flow on Spark to its end: chains become DataFrames of envelopes, and sinks are fed here.

Nothing is published before all of it is there, so that a run that fails shows nothing, and a task
that Spark tries again doubles nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.assembly import Assembly
from shunter.flow.runners.port import TasksDone
from shunter.flow.runners.spark.batch.chains import Chain
from shunter.flow.runners.spark.batch.envelopes import Clock, EnvelopeInbox, EnvelopeRow, Tallies
from shunter.flow.runners.spark.columns.column_plan import ColumnPlan
from shunter.flow.runners.spark.columns.spark_writer import ColumnFilesFeed
from shunter.flow.runners.spark.session.faults import plain_faults
from shunter.flow.runners.spark.session.job_names import job_name, named_jobs
from shunter.flow.runners.spark.session.kinds import is_local
from shunter.flow.runners.spark.session.run_watch import RunWatch
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.shipping.shipped_code import send_package
from shunter.flow.runtime.codec import Codec
from shunter.flow.runtime.plan import FlowPlan, dead_letters_stage
from shunter.flow.runtime.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_on_spark(
    flow: FlowGraph,
    session: SparkSession | None = None,
    *,
    master: str | None = None,
    nodes: int | None = None,
    progress: Callable[[TasksDone], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[StageReport]:
    """Run a flow to its end, and return what each stage has done.

    `session` is the user's own; else it is that of this process, on `master`. `nodes` is how many
    workers stages have that ask for no number; where nothing is said, as many as Spark has cores.
    Raises Stopped where it should stop; nothing is published then.
    """
    session = session or spark_session(master)
    if not is_local(session):
        send_package(session)
    run = BatchRun(flow, session, nodes or nodes_of(session))
    return run.run(progress=progress, should_stop=should_stop)


class BatchRun:
    """One run of a flow. `tag` is that of its jobs in Spark."""

    def __init__(self, flow: FlowGraph, session: SparkSession, nodes: int) -> None:
        self._flow, self._session = flow, session
        with plain_faults():
            self._plan = ColumnPlan(flow, session, nodes)
        self.tag = f"shunter-{uuid.uuid4().hex}"

    def run(self, **watched: Any) -> list[StageReport]:
        """Run it; `watched` are `progress` and `should_stop`, as a Watch takes them."""
        compiled = self._plan.compiled
        sinks = [SinkFeed(self._flow, chain) for chain in compiled.sinks]
        written = {ColumnFilesFeed(sink): stage for sink, stage in self._plan.written.items()}
        every: list[SinkFeed | ColumnFilesFeed] = [*sinks, *written]
        try:
            with RunWatch(self._session, self.tag, **watched) as watch, plain_faults():
                compiled.compile()
                for files, stage in written.items():
                    with self._named(stage):
                        files.take(self._plan.written_columns(stage))
                for sink in sinks:
                    with self._named(*sink.chain.stages):
                        sink.take(_rows_of(compiled.input_of(sink.chain), watch.check))
        except BaseException:
            for each in every:
                each.abandon()
            raise
        finally:
            self._plan.forget()
        told: Tallies = {}
        for each in every:
            each.close()
            told |= each.tallies
        return reports_of(self._flow, self._plan.tallies(told))

    def _named(self, *stages: Stage) -> AbstractContextManager[None]:
        """Name Spark's jobs after what leads into these stages."""
        names = {stage.name for stage in stages}
        own = [stage for stage in self._flow.stages if stage.name in names]
        return named_jobs(self._session, job_name(self._flow, *own))


class SinkFeed:
    """Feeds the workers of a sink, one after the other, and publishes at the end."""

    def __init__(self, flow: FlowGraph, chain: Chain) -> None:
        self.chain = chain
        self.tallies: Tallies = {}
        self._codec = Codec(flow.types)
        self._inboxes: dict[str, Any] = {}
        self._clock = Clock()
        for worker in chain.workers:
            self._inboxes[worker.id] = EnvelopeInbox((), self._codec, self._clock)
        plan = FlowPlan(1, chain.workers)
        self._assembly = Assembly(flow, plan, chain.workers, _nowhere, inboxes=self._inboxes)

    def take(self, rows: Iterable[EnvelopeRow]) -> None:
        """Feed each worker with the rows for it, which come one worker after the other."""
        workers = {worker.id: worker for worker in self._assembly.workers}
        ids = {plan.index: plan.id for plan in self.chain.workers}
        for index, mine in groupby(rows, key=lambda row: row.node):
            inbox = EnvelopeInbox(mine, self._codec, self._clock)
            worker = workers[ids[index]]
            worker.inbox = inbox  # type: ignore[assignment]
            while not worker.is_done:
                worker.step()
            self.tallies |= inbox.tallies

    def close(self) -> None:
        for worker in self._assembly.workers:
            tally = worker.tallies[self.chain.stages[0].name]
            self.tallies[worker.id] = {self.chain.stages[0].name: (tally.taken, tally.given, 0)}
        self._assembly.close()

    def abandon(self) -> None:
        self._assembly.abandon()


def reports_of(flow: FlowGraph, tallies: Tallies) -> list[StageReport]:
    """Report for each stage the sum of its tallies."""
    letters = dead_letters_stage(flow)
    stages = [*flow.in_order(), *([letters] if letters else [])]
    return [_report(stage, tallies) for stage in stages]


def _report(stage: Stage, tallies: Tallies) -> StageReport:
    told = [stages[stage.name] for stages in tallies.values() if stage.name in stages]
    taken, given, failed = map(sum, zip(*told, strict=True)) if told else (0, 0, 0)
    return StageReport(
        stage.name, str(stage.kind), taken=taken, given=given, failed=failed, waiting=0, capacity=0
    )


def _rows_of(frame: DataFrame, check: Callable[[], None]) -> Iterator[EnvelopeRow]:
    for row in frame.toLocalIterator(prefetchPartitions=True):
        check()
        yield EnvelopeRow(*row)


def _nowhere(*_: object) -> Any:
    raise AssertionError("sinks send nothing on")
