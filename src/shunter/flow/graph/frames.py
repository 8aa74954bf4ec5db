"""Stages that are functions of a DataFrame: only Spark can run them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class FrameFunction:
    """The user's function, the schema of the rows it gets, and what its rows become."""

    function: Callable[[DataFrame], DataFrame]
    schema: str | None = None
    type: Any = None

    @property
    def __name__(self) -> Any:  # stages are called after it
        return getattr(self.function, "__name__", None)

    @property
    def functions(self) -> list[Any]:
        """The user's functions in it."""
        return [self.function]
