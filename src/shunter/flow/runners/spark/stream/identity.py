"""Which flow a checkpoint is of: compared before anything in its folder is touched.

A fingerprint alone says that something differs. The graph is kept beside it, to say what.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.spark.stream.states import state_faults

FORMAT = 1


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A flow on so many nodes. `stages` and `edges` are texts that people are shown."""

    flow: str
    fingerprint: str
    nodes: int
    stages: dict[str, str]
    edges: list[str]
    code: dict[str, str]
    format: int = FORMAT


def identity_of(flow: FlowGraph, nodes: int) -> Identity:
    """Describe a flow."""
    return Identity(
        flow=flow.name,
        fingerprint=flow.fingerprint(),
        nodes=nodes,
        stages={stage.name: _described(stage) for stage in flow.stages},
        edges=[f"{edge} {edge.route}" for edge in flow.edges],
        code=dict(flow.code),
    )


def kept_identity(folder: Path) -> Identity | None:
    """Return which flow a folder is of; None where it is new."""
    path = folder / "flow.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Identity)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError) as error:
        raise FlowError(f"{path} can't be read ({error}); name another folder") from error
    if folder.is_dir() and any(each.name != "flow.part" for each in folder.iterdir()):
        raise FlowError(
            f"{folder} is no checkpoint of a stream, and is not empty; name a new folder with "
            "--checkpoints"
        )
    return None


def keep_identity(identity: Identity, folder: Path) -> None:
    """Make a new folder that of a flow."""
    with state_faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / "flow.part"
        staged.write_bytes(msgspec.json.format(msgspec.json.encode(identity), indent=1))
        staged.rename(folder / "flow.json")


def check_same(kept: Identity, now: Identity, folder: Path) -> None:
    """Raise where a checkpoint is of another flow, or another version of it; say what differs."""
    differences = list(differing(kept, now))
    if differences:
        raise FlowError(
            f"{folder} is the checkpoint of another version of this flow: "
            f"{'; '.join(differences)}. Nothing was touched; run that version, or name a new "
            "folder with --checkpoints to begin anew"
        )


def differing(kept: Identity, now: Identity) -> list[str]:
    """Say in words what is not the same."""
    found = []
    if kept.format != now.format:
        found.append(f"its format is {kept.format}, and this Shunter writes {now.format}")
    if kept.flow != now.flow:
        found.append(f"it is of the flow {kept.flow!r}, not {now.flow!r}")
    if kept.nodes != now.nodes:
        found.append(f"it has {kept.nodes} nodes, not {now.nodes}")
    found += _differing("stage", kept.stages, now.stages)
    found += [f"the route {edge} is gone" for edge in kept.edges if edge not in now.edges]
    found += [f"the route {edge} is new" for edge in now.edges if edge not in kept.edges]
    found += _differing("file", kept.code, now.code, is_shown=False)
    if not found and kept.fingerprint != now.fingerprint:
        found.append("what its errors do, or its instructions, are not the same")
    return found


def _differing(
    what: str, kept: dict[str, str], now: dict[str, str], *, is_shown: bool = True
) -> list[str]:
    gone = [f"the {what} {name!r} is gone" for name in kept if name not in now]
    new = [f"the {what} {name!r} is new" for name in now if name not in kept]
    changed = [
        f"the {what} {name!r} was {old}, and is {now[name]}" if is_shown
        else f"the {what} {name!r} has changed"
        for name, old in kept.items()
        if name in now and old != now[name]
    ]  # fmt: skip
    return [*gone, *new, *changed]


def _described(stage: Any) -> str:
    untold = "one worker" if stage.kind == "source" else "as many workers as nodes"
    workers = untold if stage.workers is None else f"{stage.workers} workers"
    return f"{stage.kind} with {workers}"
