"""Apache Arrow, which reads and writes Parquet; an extra that need not be installed."""

from __future__ import annotations

import importlib
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
