"""Stages that are functions of a DataFrame: only Spark can run them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.stages import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from shunter.flow.graph import Flow


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


def check_no_frames(flow: Flow) -> None:
    """Raise where a flow that is to run without Spark has a stage that needs it."""
    for stage in flow.stages:
        if stage.kind is Kind.FRAME:
            raise FlowError(
                "it is a function of a DataFrame, which only Spark can run; run the flow with "
                "--on spark, or let it be a map",
                stage=stage.name,
                place=str(stage.where),
            )
