"""A run of a workflow as an SVG file. Pure."""

from __future__ import annotations

import html

from shunter.model.job import Status
from shunter.model.run_view import RunView
from shunter.page.run_drawing import HEIGHT, MARGIN, WIDTH, RunBox, drawn_run

HEAD = 48

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
    found = drawn_run(view, columns=max(1, len(view.jobs)), top=HEAD)
    size = f'width="{found.width}" height="{found.height}"'
    head = _escaped(f"{view.workflow or 'workflow'} {view.id}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {found.width} {found.height}" role="img" aria-label="run {head}">',
        f"<defs><style>{STYLE}</style></defs>",
        f'<rect {size} rx="8" fill="#fff"/>',
        f'<text class="head" x="{MARGIN}" y="32">{head}</text>',
        *(f'<path class="edge" d="{line}"/>' for line in found.lines),
        *(_box(box) for box in found.boxes),
        *(f'<text class="note" x="{it.x}" y="{it.y}">{it.text}</text>' for it in found.rests),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(box: RunBox) -> str:
    fill, stroke = COLOURS.get(box.job.status, OTHER)
    middle = box.x + WIDTH // 2
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="{stroke}"><title>{_escaped(box.job.id)}</title></rect>'
        f'<text class="name" x="{middle}" y="{box.y + 18}">{_escaped(box.name)}</text>'
        f'<text class="note" x="{middle}" y="{box.y + 33}">{_escaped(box.note)}</text>'
    )


def _escaped(text: str) -> str:
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in text))
