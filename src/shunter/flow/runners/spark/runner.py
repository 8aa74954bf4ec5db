"""Runs a flow on Spark, as a batch or as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import MAX_EVENTS, OnProgress, RunOptions, RunReport, ShouldStop
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.preflight import check_run
from shunter.flow.runners.spark.session.driver_java import outlived_java
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runners.spark.session.spark_session import running_session, spark_session
from shunter.flow.runners.spark.stream.run import stream_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRunner:
    """Runs flows on Apache Spark; the session is the user's own, or that of this process."""

    def run(
        self,
        flow: FlowGraph,
        options: RunOptions,
        on_progress: OnProgress,
        should_stop: ShouldStop,
    ) -> RunReport:
        check_run(flow, options)
        session = session_for(flow, options)
        with outlived_java():
            if options.stream:
                return _stream(flow, session, options, on_progress, should_stop)
            nodes = options.nodes or nodes_of(session)
            stages = run_on_spark(
                flow, session, nodes=nodes, progress=on_progress, should_stop=should_stop
            )
            return RunReport(stages, nodes)


def session_for(flow: FlowGraph, options: RunOptions) -> SparkSession:
    """Return the session that a run is to have: the user's, that of this process, or a new one."""
    running = options.session or (running_session() if options.conf else None)
    if running is not None and options.conf:
        raise FlowError(
            f"conf: {', '.join(options.conf)} can't be set for this run, since its Spark session "
            "runs already; set it where that is started"
        )
    return options.session or spark_session(
        options.master, remote=options.remote, name=flow.name, options=options.conf
    )


def _stream(
    flow: FlowGraph,
    session: SparkSession,
    options: RunOptions,
    on_progress: OnProgress,
    should_stop: ShouldStop,
) -> RunReport:
    stages = stream_on_spark(
        flow,
        session,
        checkpoints=options.checkpoints,  # type: ignore[arg-type]
        nodes=options.nodes,
        every=options.every,
        max_events=options.max_events or MAX_EVENTS,
        progress=on_progress,
        on_kept=options.on_kept,
        should_stop=should_stop,
    )
    return RunReport(stages, options.nodes or nodes_of(session))
