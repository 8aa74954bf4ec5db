"""What stages have done, told from tasks to who has started the run, each task once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shunter.flow.runners.spark.batch.envelopes import Tallies
from shunter.flow.runners.spark.session.kinds import pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_SECONDS = 5.0
"""How long counts may come behind the job that has made them."""


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


class Counts:
    """Numbers that a job finds out by the way, of the rows of a small DataFrame."""

    def __init__(self, name: str) -> None:
        self._observation = pyspark("pyspark.sql").Observation(name)
        self._found: dict[str, Any] = {}

    def of(self, frame: DataFrame, **counted: Any) -> DataFrame:
        """Have numbers counted whenever the DataFrame is computed."""
        columns = [expression.alias(name) for name, expression in counted.items()]
        return frame.observe(self._observation, *columns)

    def found(self) -> dict[str, int]:
        """Return the numbers, or nothing where no job has come by."""

        def ask() -> None:
            self._found = self._observation.get

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(WAIT_SECONDS)
        return {name: value or 0 for name, value in self._found.items()}
