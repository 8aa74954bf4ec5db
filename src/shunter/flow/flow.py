"""What a user writes and runs: the graph of a flow, with the methods that start a runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shunter.flow.graph.flow_graph import FlowGraph

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from shunter.flow.runners.port import RunReport


class Flow(FlowGraph):
    """A graph of stages that events pass through, which can be run.

    `on_error` says what becomes of an event on which a function raised: "stop" ends the run,
    "skip" counts it, and a sink gets it with the traceback. `instructions` are the names of the
    user's own processing instructions. `types` are types of events that can't be found in the
    modules of the functions.
    """

    @classmethod
    def load(cls, spec: str) -> Flow:
        """Import the flow that `path/to/file.py:name` or `package.module:name` names.

        The name may be left out if there is only one.
        """
        from shunter.flow.loader import load

        found = load(spec)
        assert isinstance(found, cls), "users have no other graphs"
        return found

    def run(self, on: Any = "spark", **options: Any) -> RunReport:
        """Run to the end and return what each stage has done.

        `on` is "spark" (the default), "local", "engines", or the user's own SparkSession;
        `options` are the fields of `RunOptions`.
        """
        from shunter.flow.runners.registry import run_flow

        return run_flow(self, on, **options)

    def transform(self, frame: DataFrame, schema: str, **options: Any) -> DataFrame:
        """Return what this makes of a Spark DataFrame, as one with this schema.

        The rows take the place of its one source, and what would go into its one sink comes out.
        """
        from shunter.flow.runners.spark.transform import transform

        return transform(self, frame, schema, **options)
