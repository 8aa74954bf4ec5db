"""Where a flow run has left its output, and how much that is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from rich.filesize import decimal

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import StageKind
from shunter.flow.sinks.growing_file import parts_of


class Output(Struct, frozen=True):
    """What one sink has written: a file or a folder, or several of them, one from each worker."""

    stage: str
    path: str
    bytes: int


def outputs_of(flow: FlowGraph) -> list[Output]:
    """Return what the sinks of a flow have written into files."""
    sinks = [(stage.name, stage.what) for stage in flow.stages if stage.kind is StageKind.SINK]
    named = [*sinks, ("dead letters", flow.on_error)]
    return [
        Output(name, str(path), _size(path))
        for name, sink in named
        if isinstance(target := getattr(sink, "path", None), Path)
        for path in parts_of(target)
    ]


def as_line(output: Output) -> str:
    return f"{output.stage}: {output.path}, {decimal(output.bytes)}"


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in _files(path))


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)
