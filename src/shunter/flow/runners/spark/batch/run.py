"""Runs a flow on Spark to its end: chains become DataFrames of envelopes, tasks write the files.

Nothing but plans, counts and lists of files comes here, and the events of sinks that are of this
process, such as functions. Nothing is published before all of it is there, so that a run that fails
shows nothing, and a task that Spark tries again doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.assembly import Assembly
from shunter.flow.runners.port import TasksDone
from shunter.flow.runners.spark.batch.bounded_rows import bounded_rows
from shunter.flow.runners.spark.batch.chains import Chain, is_one_file
from shunter.flow.runners.spark.batch.envelopes import (
    CurrentEpoch,
    EnvelopeInbox,
    StageTally,
    Tallies,
)
from shunter.flow.runners.spark.batch.task_sinks import (
    manifests_in,
    widened_parts,
    written_columns,
)
from shunter.flow.runners.spark.columns.column_plan import ColumnPlan
from shunter.flow.runners.spark.session.faults import plain_faults
from shunter.flow.runners.spark.session.job_names import job_name, named_jobs
from shunter.flow.runners.spark.session.kinds import is_local
from shunter.flow.runners.spark.session.run_watch import RunWatch
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.shipping.shipped_code import send_package
from shunter.flow.runtime.bad_events import failing_run
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.plan import FlowPlan, dead_letters_stage
from shunter.flow.runtime.report import StageReport
from shunter.flow.sinks.file_sink import FileSink, StagedOutput, new_run
from shunter.flow.sinks.parts import PartFile

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
    workers stages have that ask for no number; defaults to one per Spark core.
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
        self._run = new_run()
        self.tag = f"shunter-{self._run}"

    def run(self, **watched: Any) -> list[StageReport]:
        """Run it; `watched` are `progress` and `should_stop`, as a RunWatch takes them."""
        compiled = self._plan.compiled
        fed = [SinkFeed(self._flow, chain) for chain in compiled.sinks]
        written = self._staged()
        compiled.files = {name: output.task for name, output in written.items()}
        told: Tallies = {}
        parts: dict[str, list[PartFile]] = {}
        try:
            with RunWatch(self._session, self.tag, **watched) as watch, plain_faults():
                compiled.compile()
                for sink, stage in self._plan.written.items():
                    with self._named(stage, sink):
                        output = written[sink.name]
                        frame = self._plan.columns(stage)
                        parts[sink.name], taken, rows = written_columns(frame, sink.name, output)
                    self._plan.tell(stage, taken, rows)
                    told[f"{sink.name} on Spark"] = {sink.name: StageTally(rows)}
                for chain in compiled.written:
                    assert chain.sink is not None
                    with self._named(*chain.stages):
                        bodies = [bytes(row.body) for row in compiled.manifests(chain).collect()]
                    parts[chain.sink.name], tallies = manifests_in(bodies)
                    told |= tallies
                for feed in fed:
                    with failing_run(), self._named(*feed.chain.stages):
                        feed.take(compiled.input_of(feed.chain), watch.check)
                for name, output in written.items():
                    parts[name] = widened_parts(self._session, output, parts[name])
        except BaseException:
            for feed in fed:
                feed.abandon()
            for output in written.values():
                output.abandon()
            raise
        finally:
            self._plan.forget()
        with failing_run():
            for name, output in written.items():
                output.publish(parts[name])
            for feed in fed:
                feed.close()
                told |= feed.tallies
        return reports_of(self._flow, self._plan.tallies(told))

    def _staged(self) -> dict[str, StagedOutput]:
        """Begin the run of each sink whose files are written by tasks."""
        compiled = self._plan.compiled
        stages = [chain.sink for chain in compiled.written if chain.sink is not None]
        staged: dict[str, StagedOutput] = {}
        try:
            for stage in [*stages, *self._plan.written]:
                if isinstance(stage.what, FileSink):
                    is_single = is_one_file(stage)
                    staged[stage.name] = stage.what.staged(self._run, is_single=is_single)
        except BaseException:
            for output in staged.values():
                output.abandon()
            raise
        return staged

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
        self._codec = EventCodec(flow.types)
        self._inboxes: dict[str, Any] = {}
        self._clock = CurrentEpoch()
        for worker in chain.workers:
            self._inboxes[worker.id] = EnvelopeInbox((), self._codec, self._clock)
        plan = FlowPlan(1, chain.workers)
        self._assembly = Assembly(flow, plan, chain.workers, _nowhere, inboxes=self._inboxes)

    def take(self, frame: DataFrame, check: Callable[[], None]) -> None:
        """Feed each worker with the rows for it, which come one worker after the other."""
        rows = bounded_rows(frame, check)
        workers = {worker.id: worker for worker in self._assembly.workers}
        ids = {plan.index: plan.id for plan in self.chain.workers}
        for index, mine in groupby(rows, key=lambda row: row.node):
            inbox = EnvelopeInbox(mine, self._codec, self._clock)
            worker = workers[ids[index]]
            worker.inbox = inbox
            while not worker.is_done:
                worker.step()
            self.tallies |= inbox.tallies

    def close(self) -> None:
        for worker in self._assembly.workers:
            tally = worker.tallies[self.chain.stages[0].name]
            self.tallies[worker.id] = {
                self.chain.stages[0].name: StageTally(tally.taken, tally.given)
            }
        self._assembly.close()

    def abandon(self) -> None:
        self._assembly.abandon()


def reports_of(flow: FlowGraph, tallies: Tallies) -> list[StageReport]:
    """Report for each stage the sum of its tallies."""
    letters = dead_letters_stage(flow)
    stages = [*flow.in_order(), *([letters] if letters else [])]
    return [_report(stage, tallies) for stage in stages]


def _report(stage: Stage, tallies: Tallies) -> StageReport:
    done = StageTally()
    for stages in tallies.values():
        done = done.plus(stages.get(stage.name, StageTally()))
    return StageReport(
        stage.name,
        str(stage.kind),
        taken=done.taken,
        given=done.given,
        failed=done.failed,
        waiting=0,
        capacity=0,
        last_error=done.error,
    )


def _nowhere(*_: object) -> Any:
    raise AssertionError("sinks send nothing on")
