"""A run of a workflow as a graph from left to right: where its jobs and edges lie. Pure.

`shunter workflow --svg` draws a file of it, the page a picture that changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from shunter.model.job import Job, Status
from shunter.model.run_view import RunView
from shunter.page.figures import span_text

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 190, 42, 56, 14, 10
MOST_IN_COLUMN = 40
"""Of a longer column, the rest are counted below it."""

MOST_COLUMNS = 60
LONGEST_NAME = 24


class RunBox(Struct, frozen=True):
    """One job in the picture."""

    job: Job
    x: int
    y: int

    @property
    def name(self) -> str:
        kind = self.job.type
        return kind if len(kind) <= LONGEST_NAME else f"{kind[: LONGEST_NAME - 1]}…"

    @property
    def note(self) -> str:
        """How the job stands, and how long it took."""
        run = self.job.execution
        if self.job.status.is_final and run.started is not None and run.ended is not None:
            return f"{self.job.status.word}, {span_text(max(0.0, run.ended - run.started))}"
        return self.job.status.word


class RestOfColumn(Struct, frozen=True):
    """How many jobs of a column are not drawn, and how they stand."""

    x: int
    y: int
    text: str


class RunDrawing(Struct, frozen=True):
    """The whole picture; `later` counts the columns that are not drawn."""

    width: int
    height: int
    boxes: tuple[RunBox, ...]
    lines: tuple[str, ...]
    rests: tuple[RestOfColumn, ...]
    later: int = 0


def drawn_run(
    view: RunView, *, most: int = MOST_IN_COLUMN, columns: int = MOST_COLUMNS, top: int = 0
) -> RunDrawing:
    """Lay a run out, from `top` down; of a layer of very many jobs the first are drawn."""
    layers: dict[int, list[Job]] = {}
    for name, depth in sorted(view.depths().items(), key=lambda it: it[1]):
        layers.setdefault(depth, []).append(view.jobs[name])
    shown = list(layers.values())[:columns]
    boxes = {
        job.id: RunBox(job, _left(at), top + MARGIN + row * (HEIGHT + GAP_Y))
        for at, layer in enumerate(shown)
        for row, job in enumerate(layer[:most])
    }
    rests = tuple(
        RestOfColumn(
            _left(at) + WIDTH // 2, top + MARGIN + most * (HEIGHT + GAP_Y) + 14, _rest(layer[most:])
        )
        for at, layer in enumerate(shown)
        if len(layer) > most
    )
    rows = max((min(len(layer), most) for layer in shown), default=1)
    return RunDrawing(
        _left(max(1, len(shown))) - GAP_X + MARGIN,
        top + 2 * MARGIN + rows * (HEIGHT + GAP_Y) - GAP_Y + (28 if rests else 0),
        tuple(boxes.values()),
        tuple(
            _line(boxes[edge.parent], boxes[edge.child])
            for edge in view.edges
            if edge.parent in boxes and edge.child in boxes
        ),
        rests,
        len(layers) - len(shown),
    )


_FIRST = (
    Status.IN_PROGRESS,
    Status.DISPATCHING,
    Status.QUEUED,
    Status.WAITING,
    Status.FAILED,
)


def state_of(counts: Mapping[Status, int], *, unneeded: int | None = None) -> str:
    """Return in one word how a run stands, given how many of its jobs stand where.

    Jobs that turned out not to be needed are cancelled, too: `unneeded` says how many, if it is
    known. A run of which some completed and some did not is "ended" where it is not.
    """
    for status in _FIRST:
        if counts.get(status):
            return status.word
    cancelled = counts.get(Status.CANCELLED, 0)
    if cancelled == (unneeded or 0):
        return Status.COMPLETED.word
    return "ended" if unneeded is None and counts.get(Status.COMPLETED) else Status.CANCELLED.word


def _left(column: int) -> int:
    return MARGIN + column * (WIDTH + GAP_X)


def _rest(jobs: Sequence[Job]) -> str:
    counts = Counter(job.status for job in jobs)
    told = ", ".join(f"{count:,} {status.word}" for status, count in counts.most_common(3))
    return f"and {len(jobs):,} more: {told}"


def _line(start: RunBox, end: RunBox) -> str:
    x, y = start.x + WIDTH, start.y + HEIGHT // 2
    to_x, to_y = end.x, end.y + HEIGHT // 2
    half = (x + to_x) // 2
    return f"M{x} {y} C{half} {y} {half} {to_y} {to_x} {to_y}"
