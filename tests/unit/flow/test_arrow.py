"""Columns of Arrow's that are read and put in order without its functions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shunter.flow.arrow import is_whole, reordered

ORDER = np.array([2, 0, 3, 1])

COLUMNS = {
    "numbers": pa.array([4, 5, 6, 7]),
    "small": pa.array([1, 2, 3, 4], pa.int8()),
    "halves": pa.array([0.5, 1.5, 2.5, 3.5]),
    "gaps": pa.array([1, None, 3, 4]),
    "texts": pa.array(["a", "b", None, "d"]),
    "lists": pa.array([[1], [], [2, 3], None]),
}


@pytest.mark.parametrize("names", [["numbers", "small", "halves"], list(COLUMNS)])
def test_rows_are_put_in_order_as_arrow_itself_does_it(names: list[str]) -> None:
    batch = pa.RecordBatch.from_pydict({name: COLUMNS[name] for name in names})

    assert reordered(batch, ORDER).equals(batch.take(pa.array(ORDER)))


def test_rows_of_a_slice_are_put_in_order() -> None:
    batch = pa.RecordBatch.from_pydict({"numbers": pa.array(range(10))}).slice(5, 4)

    assert reordered(batch, ORDER).to_pydict() == {"numbers": [7, 5, 8, 6]}


@pytest.mark.parametrize(("name", "expected"), [("small", True), ("gaps", False), ("texts", False)])
def test_only_numbers_without_gaps_are_whole(name: str, expected: bool) -> None:
    column: Any = COLUMNS[name]

    assert is_whole(column) is expected


def test_numbers_are_put_in_order_without_the_libraries_that_take_memory() -> None:
    program = (
        "import sys, numpy as np, pyarrow as pa\n"
        "from shunter.flow.arrow import reordered\n"
        "array = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(np.arange(2))])\n"
        "reordered(pa.RecordBatch.from_arrays([array], names=['n']), np.array([1, 0]))\n"
        "print([name for name in ('pandas', 'pyarrow.compute') if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.strip() == "[]", done.stderr
