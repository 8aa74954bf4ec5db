"""What kinds of workers can do is data: nobody decides by the name of a kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "shunter"


def decisions_by_kind(source: str) -> Iterator[int]:
    """Yield the lines in which something is compared with one of the kinds."""
    for node in ast.walk(ast.parse(source)):
        asked = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            asked = [node.value]
        names = (part for each in asked for part in ast.walk(each))
        if any(ast.unparse(name).startswith("WorkerKind.") for name in names):
            yield node.lineno


@pytest.mark.parametrize("room", ["model", "dispatch", "why", "gateway", "wire", "page"])
def test_nobody_decides_by_the_name_of_a_kind(room: str) -> None:
    found = [
        f"{path.name}: line {line}"
        for path in (SOURCE / room).rglob("*.py")
        for line in decisions_by_kind(path.read_text("utf-8"))
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "x = worker.kind is WorkerKind.HTTP",
        "if kind not in (WorkerKind.UDP, WorkerKind.PLAIN): ...",
        "match kind:\n    case WorkerKind.FULL: ...",
    ],
)
def test_a_decision_by_a_kind_is_found(source: str) -> None:
    assert list(decisions_by_kind(source)) != []
    assert list(decisions_by_kind("made(kind=WorkerKind.HTTP)")) == []
