"""There is one way to wait longer from try to try: `backoff` of `model/retry.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "shunter"

NO_WAITS = {
    "flow/sources/items.py",  # how many events are read at once
    "testing/simulation/sockets.py",  # what libzmq does
    "wire/udp/pace.py",  # gaps between packets, from what is measured of a peer
    "wire/udp/transmissions.py",
}


def grown_by_hand(source: str) -> Iterator[int]:
    """Yield the lines in which something grows by a factor, or by a power, up to a bound."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "min":
            continue
        parts = [it for asked in node.args for it in ast.walk(asked)]
        if any(isinstance(it, ast.BinOp) and isinstance(it.op, ast.Pow) for it in parts):
            yield node.lineno
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("min("):
            grown = ast.unparse(node.targets[0])
            products = (it for it in ast.walk(node.value) if isinstance(it, ast.BinOp))
            for product in products:
                if isinstance(product.op, ast.Mult) and grown in map(
                    ast.unparse, (product.left, product.right)
                ):
                    yield node.lineno


def test_nobody_grows_waits_by_hand() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: line {line}"
        for path in SOURCE.rglob("*.py")
        for line in grown_by_hand(path.read_text("utf-8"))
        if str(path.relative_to(SOURCE)) not in {"model/retry.py", *NO_WAITS}
    ]

    assert found == []


@pytest.mark.parametrize(
    "source", ["delay = min(2 * delay, MOST)", "pause = min(FIRST * 2.0 ** misses, LONGEST)"]
)
def test_a_wait_that_is_grown_by_hand_is_found(source: str) -> None:
    assert list(grown_by_hand(source)) == [1]
