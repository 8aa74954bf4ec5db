"""Runs a flow on Spark, as a batch or as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import MAX_EVENTS, OnProgress, RunOptions, RunReport, ShouldStop
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runners.spark.session.spark_session import spark_session
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
        if options.stream:
            return self._stream(flow, options, on_progress, should_stop)
        session = _session(options)
        nodes = options.nodes or nodes_of(session)
        stages = run_on_spark(
            flow, session, nodes=nodes, progress=on_progress, should_stop=should_stop
        )
        return RunReport(stages, nodes)

    def _stream(
        self,
        flow: FlowGraph,
        options: RunOptions,
        on_progress: OnProgress,
        should_stop: ShouldStop,
    ) -> RunReport:
        if not isinstance(options.checkpoints, str) and not hasattr(
            options.checkpoints, "__fspath__"
        ):
            raise FlowError(
                "a stream needs a folder from which a later run can go on; name one with "
                "checkpoints=… (--checkpoints), and on a cluster one that all its hosts see, or a "
                "URL such as s3://BUCKET/FOLDER"
            )
        session = _session(options)
        stages = stream_on_spark(
            flow,
            session,
            checkpoints=options.checkpoints,  # type: ignore[arg-type]
            nodes=options.nodes,
            every=options.every,
            max_events=options.max_events or MAX_EVENTS,
            progress=on_progress,
            should_stop=should_stop,
        )
        return RunReport(stages, options.nodes or nodes_of(session))


def _session(options: RunOptions) -> SparkSession:
    return options.session or spark_session(options.master, remote=options.remote)
