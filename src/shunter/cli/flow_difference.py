"""`shunter flow diff`: what becomes of a checkpoint when a changed flow goes on from it."""

from __future__ import annotations

import json
import sys

import msgspec

from shunter.cli.terminal import Terminal
from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.checkpoint import checkpoint_identity, compared
from shunter.shown_text import shown_json

SAME, DIFFERENT, REFUSED = 0, 1, 2
"""Exit codes."""

_STYLES = {"kept": "green", "dropped": "yellow", "new": "cyan", "changed": "", "refused": "red"}


def show_difference(flow: FlowGraph, checkpoints: str, *, nodes: int | None, as_json: bool) -> int:
    """Print it; return the exit code."""
    kept = checkpoint_identity(Location.of(checkpoints))
    if kept is None:
        raise FlowError(f"{checkpoints}: there is no checkpoint of a stream; look at the path")
    _, found = compared(flow, kept, nodes or kept.nodes)
    if as_json:
        document = json.dumps(msgspec.to_builtins(found), indent=2)
        sys.stdout.write(shown_json(document) + "\n")
    else:
        console = Terminal()
        for name, style in _STYLES.items():
            for said in getattr(found, name):
                console.print(f"{name:8}", style=style, end=" ")
                console.print(said, highlight=False, soft_wrap=True)
        if found.refused:
            console.print("a stream would not go on from this checkpoint", style="red")
        elif found.are_none:
            console.print("the same flow: a stream would go on as it was")
    if found.refused:
        return REFUSED
    return SAME if found.are_none else DIFFERENT
