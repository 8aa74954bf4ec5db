"""Runs a flow on Spark to its end: chains become DataFrames of envelopes, and sinks are fed here.

Nothing is published before all of it is there, so that a run that fails shows nothing, and a task
that Spark tries again doubles nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from shunter.flow.assembly import Assembly
from shunter.flow.codec import Codec
from shunter.flow.graph import Flow, Stage
from shunter.flow.plan import Plan, letters_stage
from shunter.flow.report import StageReport
from shunter.flow.spark.chains import Chain
from shunter.flow.spark.compiling import CompiledFlow
from shunter.flow.spark.envelopes import Clock, Envelope, EnvelopeInbox, Tallies
from shunter.flow.spark.faults import plain_faults
from shunter.flow.spark.session import is_local, spark_session
from shunter.flow.spark.shipping import send_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_on_spark(
    flow: Flow,
    session: SparkSession | None = None,
    *,
    master: str | None = None,
    nodes: int | None = None,
) -> list[StageReport]:
    """Run a flow to its end, and return what each stage has done.

    `session` is the user's own; else it is that of this process, on `master`. `nodes` is how many
    workers stages have that ask for no number; where nothing is said, as many as Spark has cores.
    """
    session = session or spark_session(master)
    if not is_local(session):
        send_package(session)
    return BatchRun(flow, session, nodes or session.sparkContext.defaultParallelism).run()


class BatchRun:
    """One run of a flow. `tag` is that of its jobs in Spark."""

    def __init__(self, flow: Flow, session: SparkSession, nodes: int) -> None:
        self._flow, self._session = flow, session
        self._compiled = CompiledFlow(flow, session, nodes)
        self.tag = f"shunter-{uuid.uuid4().hex}"

    def run(self) -> list[StageReport]:
        sinks = [Delivery(self._flow, chain) for chain in self._compiled.sinks]
        context = self._session.sparkContext
        context.addJobTag(self.tag)
        try:
            with plain_faults():
                self._compiled.compile()
                for sink in sinks:
                    sink.take(_rows_of(self._compiled.input_of(sink.chain)))
        except BaseException:
            context.cancelJobsWithTag(self.tag)
            for sink in sinks:
                sink.abandon()
            raise
        finally:
            context.removeJobTag(self.tag)
            self._compiled.forget()
        for sink in sinks:
            sink.close()
        return reports(self._flow, sinks)


class Delivery:
    """Feeds the workers of a sink, one after the other, and publishes at the end."""

    def __init__(self, flow: Flow, chain: Chain) -> None:
        self.chain = chain
        self.tallies: Tallies = {}
        self._codec = Codec(flow.types)
        self._inboxes: dict[str, Any] = {}
        self._clock = Clock()
        for worker in chain.workers:
            self._inboxes[worker.id] = EnvelopeInbox((), self._codec, self._clock)
        plan = Plan(1, chain.workers)
        self._assembly = Assembly(flow, plan, chain.workers, _nowhere, inboxes=self._inboxes)

    def take(self, rows: Iterable[Envelope]) -> None:
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


def reports(flow: Flow, sinks: Iterable[Delivery]) -> list[StageReport]:
    """Sum up what all workers have told."""
    tallies: Tallies = {}
    for sink in sinks:
        tallies |= sink.tallies
    letters = letters_stage(flow)
    stages = [*flow.in_order(), *([letters] if letters else [])]
    return [_report(stage, tallies) for stage in stages]


def _report(stage: Stage, tallies: Tallies) -> StageReport:
    told = [stages[stage.name] for stages in tallies.values() if stage.name in stages]
    taken, given, failed = map(sum, zip(*told, strict=True)) if told else (0, 0, 0)
    return StageReport(
        stage.name, str(stage.kind), taken=taken, given=given, failed=failed, waiting=0, capacity=0
    )


def _rows_of(frame: DataFrame) -> Iterator[Envelope]:
    return (Envelope(*row) for row in frame.toLocalIterator(prefetchPartitions=True))


def _nowhere(*_: object) -> Any:
    raise AssertionError("sinks send nothing on")
