"""What every runner is, and what it is asked for and gives back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runtime.checkpoint import CheckpointStore
from shunter.flow.runtime.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.0/8"
ENGINES = 2
MAX_EVENTS = 10_000
EVERY_SECONDS = 5.0


class Stopped(Exception):
    """The run has ended because somebody wanted it to."""


@dataclass(frozen=True)
class TasksDone:
    """How many of Spark's tasks are done, run just now, and are known of so far."""

    done: int = 0
    active: int = 0
    total: int = 0


@dataclass(frozen=True)
class CheckpointKept:
    """A checkpoint was kept; `seconds` is how long that took from when it was asked for."""

    number: int
    seconds: float


@dataclass(frozen=True)
class BatchDone:
    """A micro-batch of Spark's counts now: its number, how long it took, how much it has read."""

    number: int
    seconds: float
    events: int


Progress = Sequence[StageReport] | TasksDone
"""What a runner tells while it runs: what each stage has done, or how many of Spark's tasks are."""

OnProgress = Callable[[Progress], None]
OnKept = Callable[[CheckpointKept | BatchDone], None]
ShouldStop = Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a flow is to be run; None and () leave it to the runner.

    `spec` is how other processes load the flow, `nodes` how many workers stages have that ask for
    no number. `checkpoints` is a folder or URL, or a store. `every` is how many seconds lie between
    two checkpoints, or two micro-batches, which have `max_events` of each source's worker at most.
    `key_file` holds the key that the engines at `addresses` have. `conf` are settings of Spark for
    a session that the run starts. `on_kept` is told what a later run could go on from.
    """

    spec: str = ""
    nodes: int | None = None
    checkpoints: str | os.PathLike[str] | CheckpointStore | None = None
    every: float | None = None
    stream: bool = False
    max_events: int | None = None
    session: SparkSession | None = None
    conf: Mapping[str, str] | None = None
    master: str | None = None
    remote: str | None = None
    addresses: Sequence[str] = ()
    hosts: str | None = None
    network: str = LOOPBACK
    key_file: str = ""
    on_kept: OnKept = lambda _: None

    @classmethod
    def of(cls, **given: Any) -> RunOptions:
        """Make them of what a user gave by name; raise a FlowError for a name that is unknown."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            raise FlowError(
                f"there is no option {unknown[0]!r} of a run; there are {', '.join(known)}"
            )
        return cls(**given)


@dataclass(frozen=True, slots=True)
class RunReport:
    """What each stage has done, and on how many nodes."""

    stages: list[StageReport]
    nodes: int

    def __iter__(self) -> Iterator[StageReport]:
        return iter(self.stages)

    def __getitem__(self, name: str) -> StageReport:
        return next(stage for stage in self.stages if stage.name == name)


class Runner(Protocol):
    """Runs flows to their end. Raises Stopped if it should stop; nothing is published then."""

    def run(
        self,
        flow: FlowGraph,
        options: RunOptions,
        on_progress: OnProgress,
        should_stop: ShouldStop,
    ) -> RunReport:
        """Run a flow, and return what its stages have done."""
