"""What a flow job tells while it runs, and as its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct, json
from msgspec.structs import replace

from shunter.context import Context
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import BatchDone, CheckpointKept, Progress, TasksDone
from shunter.flow.runtime.progress import EdgeProgress, Pace, StageProgress, events_read
from shunter.flow.runtime.report import StageReport
from shunter.flow.stall import Stall
from shunter.model.limits import MAX_NOTE_BYTES


class SafePoint(Struct, frozen=True):
    """The last checkpoint, or the last batch of Spark's that counts: what a later try goes on from.

    `at` is for how long the run had run then, `took` how many seconds it took, `events` how many
    a batch has read.
    """

    number: int
    at: float
    took: float
    events: int | None = None


class FlowProgress(Struct, frozen=True):
    """How far a run has come; at its end, when it is the job's result, rates are of all of it.

    Counts and seconds are of this try: what came before the checkpoint that it began at is not in.
    A batch on Spark counts events at its end alone; until then its stages have no counts, and
    `tasks` are how many of Spark's are done and how many there are. `still` is for how many seconds
    nothing has moved, where that is long. `edges` are those between stages, on so many `nodes`.
    `checkpoint` is the last one of this try, `batch` the last one of a stream on Spark.
    """

    flow: str
    seconds: float
    stages: list[StageProgress]
    tasks: tuple[int, int] | None = None
    still: float | None = None
    edges: list[EdgeProgress] = []
    nodes: int = 1
    on: str = ""
    checkpoint: SafePoint | None = None
    batch: SafePoint | None = None


class FlowProgressReporter:
    """Tells the context of a job about its run, on so many nodes, which begins now."""

    def __init__(
        self,
        ctx: Context,
        flow: FlowGraph,
        nodes: int,
        *,
        on: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on = on
        self._checkpoint: SafePoint | None = None
        self._batch: SafePoint | None = None
        self._ctx, self._flow, self._nodes, self._clock = ctx, flow, nodes, clock
        self._began = clock()
        self._pace = Pace(flow, nodes, now=self._began)
        self._stall = Stall()
        self._bare = [
            StageProgress(stage.name, str(stage.kind), 0, 0, 0, 0.0, 0, 0, 0)
            for stage in flow.in_order()
        ]
        self._bare_edges = Pace(flow, nodes, now=self._began).edges([], now=self._began)

    def progress(self, progress: Progress) -> None:
        """Tell what a runner says of its progress."""
        if isinstance(progress, TasksDone):
            self.tasks(progress)
        else:
            self.stages(progress)

    def kept(self, point: CheckpointKept | BatchDone) -> None:
        """Note what a later try could go on from; it is told with the next counts."""
        at, took = round(self._clock() - self._began, 3), round(point.seconds, 3)
        if isinstance(point, BatchDone):
            self._batch = SafePoint(point.number, at, took, point.events)
        else:
            self._checkpoint = SafePoint(point.number, at, took)

    def stages(self, reports: Sequence[StageReport]) -> None:
        """Tell what the stages have done so far."""
        now = self._clock()
        stages = self._pace.of(reports, now=now)
        still = self._stall.seen(now, tuple((each.taken, each.given) for each in reports))
        edges = self._pace.edges(reports, now=now)
        self._note(now, stages, still, events_read(stages), edges=edges)

    def tasks(self, tasks: TasksDone) -> None:
        """Tell how far Spark is with its tasks, where it can't be seen into them."""
        now = self._clock()
        still = self._stall.seen(now, (tasks.done, tasks.active, tasks.total))
        self._note(now, self._bare, still, tasks.done, tasks.total, edges=self._bare_edges)

    def end(self, reports: Sequence[StageReport]) -> FlowProgress:
        """Tell the last counts; return them with the rates of the whole run."""
        self.stages(reports)
        now = self._clock()
        whole = Pace(self._flow, self._nodes, now=self._began)
        return FlowProgress(
            self._flow.name,
            round(now - self._began, 3),
            whole.of(reports, now=now),
            edges=whole.edges(reports, now=now),
            nodes=self._nodes,
            on=self._on,
            checkpoint=self._checkpoint,
            batch=self._batch,
        )

    def _note(
        self,
        now: float,
        stages: list[StageProgress],
        still: float | None,
        done: int,
        total: int | None = None,
        *,
        edges: Sequence[EdgeProgress] = (),
    ) -> None:
        found = FlowProgress(
            self._flow.name,
            round(now - self._began, 3),
            stages,
            tasks=None if total is None else (done, total),
            still=None if still is None else round(still, 1),
            edges=list(edges),
            nodes=self._nodes,
            on=self._on,
            checkpoint=self._checkpoint,
            batch=self._batch,
        )
        note = json.encode(found)
        if len(note) > MAX_NOTE_BYTES:
            bare = [replace(stage, last_error="") for stage in stages]
            note = json.encode(replace(found, edges=[], stages=bare))
        self._ctx.progress(done, total, note=note.decode())
