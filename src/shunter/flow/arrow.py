"""Apache Arrow, which reads and writes Parquet; an extra that need not be installed.

Arrays are made of buffers here, and read from them: pyarrow's own `array` and `to_numpy` import
pandas, if it is there, which costs each of Spark's Python processes 45 MB.
"""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from shunter.errors import FlowError


def arrow(module: str = "pyarrow") -> Any:
    """Return pyarrow or a module of it; it has no types of its own."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FlowError(
            f"Parquet needs pyarrow, which can't be imported ({error}); type: "
            "pip install 'shunter[flows]'"
        ) from error


def numbers_of(column: Any) -> Any:
    """Return the numbers of a column without gaps as an array of NumPy's."""
    np, kind = arrow("numpy"), str(column.type)
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.empty(0, _NUMPY_NAMES.get(kind, kind))
    end = column.offset + len(column)
    return np.frombuffer(buffer, _NUMPY_NAMES.get(kind, kind), count=end)[column.offset :]


def reordered(batch: Any, positions: Any) -> Any:
    """Return the rows of a batch at the positions, 64-bit numbers of NumPy's.

    Only where a column has gaps or is of no numbers Arrow's own `take` is needed, which loads all
    of its functions, 9 MB.
    """
    pa = arrow()
    if all(map(is_whole, batch.columns)):
        columns = [
            pa.Array.from_buffers(
                column.type, len(positions), [None, pa.py_buffer(numbers_of(column)[positions])]
            )
            for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch.take(
        pa.Array.from_buffers(pa.int64(), len(positions), [None, pa.py_buffer(positions)])
    )


def is_whole(column: Any) -> bool:
    """True for a column of numbers without gaps."""
    of_type = arrow("pyarrow.types")
    is_number = of_type.is_integer(column.type) or of_type.is_floating(column.type)
    return bool(is_number and not column.null_count)


def whole_array(values: Sequence[Any], kind: Any) -> Any:
    """Return an array of Arrow's without gaps: of int32, int64, bool, string or binary."""
    pa = arrow()
    buffers: list[Any]
    match str(kind):
        case "int32" | "int64" as name:
            buffers = [array("i" if name == "int32" else "q", values)]
        case "bool":
            np = arrow("numpy")
            buffers = [np.packbits(np.array(values, bool), bitorder="little")]
        case name:
            parts = [each.encode() for each in values] if name == "string" else values
            buffers = [array("i", accumulate(map(len, parts), initial=0)), b"".join(parts)]
    return pa.Array.from_buffers(kind, len(values), [None, *map(pa.py_buffer, buffers)])


_NUMPY_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16"}
