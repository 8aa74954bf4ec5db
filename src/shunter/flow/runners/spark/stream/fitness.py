"""Which flows can't be streams, told without Spark. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage, StageKind


def check_streamable(flow: FlowGraph) -> None:
    """Raise a FlowError for the first stage that can't be in a stream."""
    for stage in flow.stages:
        if stage.kind is StageKind.FRAME:
            raise unfit(stage, "a function of a DataFrame sees a batch, and not the stream")
        if stage.kind is StageKind.SOURCE and isinstance(stage.what, Iterator):
            raise unfit(stage, "it can be read only once; pass a function that returns it anew")


def unfit(stage: Stage, fact: str) -> FlowError:
    """Return the error of a stage that can't be in a stream."""
    return FlowError(
        f"{fact}, or run the flow without --stream", stage=stage.name, place=str(stage.where)
    )
