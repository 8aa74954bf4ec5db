"""What stages have done, told from tasks to who has started the run, each task once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shunter.flow.runners.spark.batch.envelopes import Tallies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Union:
    """How Spark adds up tallies: a task that was tried twice says the same under the same name."""

    def zero(self, _: Tallies) -> Tallies:
        return {}

    def addInPlace(self, one: Tallies, other: Tallies) -> Tallies:  # noqa: N802
        one |= other
        return one


class TaskTallies:
    """The tallies of tasks whose rows have no place for them."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        self._told: Any = context.accumulator({}, Union())

    @property
    def add(self) -> Callable[[Tallies], None]:
        """What a task calls; it can be sent to executors."""
        add: Callable[[Tallies], None] = self._told.add
        return add

    @property
    def all(self) -> Tallies:
        return dict(self._told.value)
