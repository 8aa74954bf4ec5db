"""A run of a workflow as an SVG picture, from left to right. Pure."""

from __future__ import annotations

import html

from shunter.model.job import Job, Status
from shunter.model.run_view import RunView

BOX_WIDTH, BOX_HEIGHT = 190.0, 42.0
COLUMN_GAP, ROW_GAP, MARGIN, HEAD = 56.0, 14.0, 24.0, 34.0

MOST_IN_COLUMN = 40
"""Of a longer column, the rest are counted below it."""

COLOURS = {
    Status.COMPLETED: ("#e4f3e6", "#3d8b4a"),
    Status.FAILED: ("#fbe5e3", "#b3392f"),
    Status.CANCELLED: ("#fdf1da", "#a8741a"),
    Status.IN_PROGRESS: ("#e6effa", "#3a6ea5"),
}
OTHER = ("#f3f4f6", "#6e7781")

STYLE = """\
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
.head { font-size: 15px; font-weight: 600; fill: #24292f }
.name { font-size: 12px; font-weight: 600; fill: #24292f; text-anchor: middle }
.note { font-size: 10px; fill: #57606a; text-anchor: middle }
.edge { fill: none; stroke: #8b949e; stroke-width: 1.2 }"""


def run_as_svg(view: RunView) -> str:
    """Draw a run; of a layer of very many jobs, only the first are drawn."""
    columns: list[list[Job]] = []
    for name, depth in sorted(view.depths().items(), key=lambda it: it[1]):
        while len(columns) <= depth:
            columns.append([])
        columns[depth].append(view.jobs[name])
    shown = [column[:MOST_IN_COLUMN] for column in columns]
    places = {
        job.id: (_left(at), HEAD + MARGIN + row * (BOX_HEIGHT + ROW_GAP))
        for at, column in enumerate(shown)
        for row, job in enumerate(column)
    }
    rows = max((len(column) for column in shown), default=0) + 1
    width = _left(max(1, len(shown))) - COLUMN_GAP + MARGIN
    height = HEAD + 2 * MARGIN + rows * (BOX_HEIGHT + ROW_GAP)
    head = _escaped(f"{view.workflow or 'workflow'} {view.id}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="run {head}">',
        f"<defs><style>{STYLE}</style></defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#fff"/>',
        f'<text class="head" x="{MARGIN:.0f}" y="32">{head}</text>',
        *(
            _edge(places[edge.parent], places[edge.child])
            for edge in view.edges
            if edge.parent in places and edge.child in places
        ),
        *(_box(view.jobs[name], *place) for name, place in places.items()),
        *(
            _more(len(column) - MOST_IN_COLUMN, at)
            for at, column in enumerate(columns)
            if len(column) > MOST_IN_COLUMN
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _left(column: int) -> float:
    return MARGIN + column * (BOX_WIDTH + COLUMN_GAP)


def _box(job: Job, x: float, y: float) -> str:
    fill, stroke = COLOURS.get(job.status, OTHER)
    name = job.type if len(job.type) <= 24 else f"{job.type[:23]}…"
    middle = x + BOX_WIDTH / 2
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH:.0f}" height="{BOX_HEIGHT:.0f}" rx="6" '
        f'fill="{fill}" stroke="{stroke}"><title>{_escaped(job.id)}</title></rect>'
        f'<text class="name" x="{middle:.1f}" y="{y + 18:.1f}">{_escaped(name)}</text>'
        f'<text class="note" x="{middle:.1f}" y="{y + 33:.1f}">{_escaped(_note(job))}</text>'
    )


def _note(job: Job) -> str:
    run = job.execution
    if run.started is not None and run.ended is not None:
        return f"{job.status.word}, {run.ended - run.started:.2f} s"
    return job.status.word


def _more(count: int, column: int) -> str:
    x = _left(column) + BOX_WIDTH / 2
    y = HEAD + MARGIN + MOST_IN_COLUMN * (BOX_HEIGHT + ROW_GAP) + 24
    return f'<text class="note" x="{x:.1f}" y="{y:.1f}">and {count:,} more</text>'


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    x, y = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT / 2
    to_x, to_y = end[0], end[1] + BOX_HEIGHT / 2
    half = (x + to_x) / 2
    curve = f"M{x:.1f} {y:.1f} C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path class="edge" d="{curve}"/>'


def _escaped(text: str) -> str:
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in text))
