"""Which flow a checkpoint is of: what its stages keep, and on which workers.

State belongs to the names of stages. So a checkpoint fits a flow that has changed, as far as what
its stages of the same names keep is still the same; `differences.py` says where it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.aggregates import Aggregation
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.location import Location
from shunter.flow.runners.spark.batch.chains import chains_of, pinned
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.stream.states import state_faults

FORMAT = 2
MARK = "flow.json"

BY_KEY, WHOLE = "by key", "whole"
DATAFRAME = "a DataFrame"


class StageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint must know of a stage.

    `workers` is what the user has said, and `count` how many there are; `keeps` is how its state is
    kept, if it has one, `key` the name of its key, and `holds` what an aggregate or source is of.
    """

    kind: str
    workers: int | None = None
    count: int = 1
    keeps: str = ""
    key: str = ""
    holds: str = ""


class WorkerFacts(msgspec.Struct, frozen=True, array_like=True):
    """A worker with states: the stages that have one, its index, and of how many."""

    stages: list[str]
    index: int
    count: int


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A flow on so many nodes. `edges` are texts that people are shown."""

    flow: str
    fingerprint: str
    nodes: int
    stages: dict[str, StageFacts]
    workers: dict[str, WorkerFacts]
    edges: list[str]
    code: dict[str, str]
    format: int = FORMAT


class _Format(msgspec.Struct):
    format: int


def identity_of(flow: FlowGraph, nodes: int, pins: Mapping[str, int] | None = None) -> Identity:
    """Describe a flow; `pins` says how many workers stages have that don't say so themselves."""
    with pinned(flow, pins or {}):
        chains = chains_of(flow, nodes, is_parallel=_is_frame) if flow.edges else []
    counts = {stage.name: chain.count for chain in chains for stage in chain.stages}
    workers = {}
    for chain in chains:
        kept = [stage.name for stage in chain.stages if keeps(stage)]
        for worker in chain.workers if kept else ():
            workers[worker.id] = WorkerFacts(kept, worker.index, worker.count)
    return Identity(
        flow=flow.name,
        fingerprint=flow.fingerprint(),
        nodes=nodes,
        stages={stage.name: _facts(stage, counts.get(stage.name, 1)) for stage in flow.stages},
        workers=workers,
        edges=[f"{edge} {edge.route}" for edge in flow.edges],
        code=dict(flow.code),
    )


def keeps(stage: Stage) -> str:
    """Say how the state of a stage is kept: by key, as a whole, or "" if it has none."""
    if stage.kind is StageKind.AGGREGATE or (stage.kind is StageKind.STATEFUL and stage.keyed):
        return BY_KEY
    return WHOLE if stage.kind is StageKind.STATEFUL else ""


def pins_of(flow: FlowGraph, kept: Identity | None) -> dict[str, int]:
    """Return how many workers stages go on with that say no number, whatever the nodes are now.

    The parts of a sink and the objects of a stage without keys are as many as they were.
    """
    found = {}
    for stage in flow.stages:
        before = None if kept is None else kept.stages.get(stage.name)
        if before is None or stage.workers is not None or before.kind != stage.kind:
            continue
        if stage.kind is StageKind.SINK or keeps(stage) == WHOLE:
            found[stage.name] = before.count
    return found


def _facts(stage: Stage, count: int) -> StageFacts:
    return StageFacts(
        kind=stage.kind,
        workers=stage.workers,
        count=count,
        keeps=keeps(stage),
        key=", ".join(sorted({edge.route.label for edge in stage.inputs})) if stage.keyed else "",
        holds=_described(stage),
    )


def _described(stage: Stage) -> str:
    what: Any = stage.what
    if isinstance(what, DataFrameSource):
        return DATAFRAME
    if keeps(stage) == BY_KEY and any(edge.route.order is not None for edge in stage.inputs):
        return "events held for their turn"
    if not isinstance(what, Aggregation):
        return ""
    parts = [f"{name}={type(each).__name__}" for name, each in what.aggregates.items()]
    if what.window is not None:
        parts.append(f"windows of {what.window.size:g} every {what.window.every:g} seconds")
    return ", ".join(parts)


def _is_frame(stage: Stage) -> bool:
    return isinstance(stage.what, DataFrameSource)


# ---- at the checkpoint


def kept_identity(folder: Location) -> Identity | None:
    """Return which flow a checkpoint was begun with; None if it is new."""
    path = folder / MARK
    if not path.is_file():
        if any(not info.location.name.endswith(".part") for info in folder.files(recursive=True)):
            raise FlowError(
                f"{folder} is no checkpoint of a stream, and is not empty; name a new folder with "
                "--checkpoints"
            )
        return None
    try:
        body = path.read()
        found = msgspec.json.decode(body, type=_Format).format
        if found != FORMAT:
            raise FlowError(
                f"{folder}: its format is {found}, and this Shunter writes {FORMAT}; nothing was "
                "touched: end the stream with the Shunter that began it, or name a new folder"
            )
        return msgspec.json.decode(body, type=Identity)
    except (OSError, msgspec.DecodeError) as error:
        raise FlowError(f"{path} can't be read ({error}); name another folder") from error


def keep_identity(identity: Identity, folder: Location) -> None:
    """Make a new folder the checkpoint of a flow."""
    with state_faults(folder):
        folder.make_folder()
        (folder / MARK).write(msgspec.json.format(msgspec.json.encode(identity), indent=1))
