"""Pictures of a flow: as text for a terminal, as Mermaid for docs, and as SVG. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import pairwise

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.routes import RouteKind
from shunter.flow.graph.stages import Edge, Stage, StageKind
from shunter.flow.pictures.layout import MARGIN, Box, Point, laid_out

LONGEST_LABEL = 40


def as_text(flow: FlowGraph) -> str:
    """Draw a flow as a tree; a stage with several inputs is drawn at the first of them."""
    drawn: set[Stage] = set()
    lines = [_headline(flow)]
    for stage in flow.stages:
        if not stage.inputs:
            lines += ["", *_tree(stage, drawn)]
    return "\n".join(lines) + "\n"


def _tree(stage: Stage, drawn: set[Stage]) -> Iterator[str]:
    drawn.add(stage)
    yield f"{stage.name} ({_nature(stage)})"
    for edge in stage.outputs:
        is_last = edge is stage.outputs[-1]
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        route = f"{_label(edge)} → " if _label(edge) else ""
        if edge.downstream in drawn:
            yield f"{branch}{route}{edge.downstream.name} (see above)"
            continue
        first, *rest = _tree(edge.downstream, drawn)
        yield f"{branch}{route}{first}"
        yield from (f"{trunk}{line}" for line in rest)


# ---- Mermaid


SHAPES = {
    StageKind.SOURCE: ("([", "])"),
    StageKind.MAP: ("[", "]"),
    StageKind.FILTER: ("{{", "}}"),
    StageKind.FLAT_MAP: ("[/", "/]"),
    StageKind.STATEFUL: ("[[", "]]"),
    StageKind.AGGREGATE: ("[[", "]]"),
    StageKind.FRAME: ("[", "]"),
    StageKind.SINK: ("[(", ")]"),
}


def as_mermaid(flow: FlowGraph) -> str:
    """Draw a flow as a Mermaid flowchart."""
    ids = {stage: f"stage{number}" for number, stage in enumerate(flow.stages)}
    lines = ["flowchart LR"]
    for stage, name in ids.items():
        left, right = SHAPES[stage.kind]
        text = f"{_quoted(stage.name)}<br>{_quoted(_nature(stage))}"
        lines.append(f'    {name}{left}"{text}"{right}')
    for edge in flow.edges:
        label = f'|"{_quoted(_label(edge))}"|' if _label(edge) else ""
        lines.append(f"    {ids[edge.upstream]} -->{label} {ids[edge.downstream]}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "".join(c if c.isalnum() or c in " _.:@/,-" else f"#{ord(c)};" for c in text)


# ---- SVG


COLOURS = {
    StageKind.SOURCE: ("#e3f1e5", "#3b7d47"),
    StageKind.MAP: ("#e6effa", "#3a6ea5"),
    StageKind.FILTER: ("#e6effa", "#3a6ea5"),
    StageKind.FLAT_MAP: ("#e6effa", "#3a6ea5"),
    StageKind.STATEFUL: ("#fdf1da", "#a8741a"),
    StageKind.AGGREGATE: ("#fdf1da", "#a8741a"),
    StageKind.FRAME: ("#e6effa", "#3a6ea5"),
    StageKind.SINK: ("#f3e8f6", "#7c4a8d"),
}
HEAD_HEIGHT = 34.0
ROUNDING = {StageKind.SOURCE: 23, StageKind.SINK: 23}

STYLE = """\
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
.flow { font-size: 15px; font-weight: 600; fill: #24292f }
.name { font-size: 13px; font-weight: 600; fill: #24292f; text-anchor: middle }
.nature { font-size: 11px; fill: #57606a; text-anchor: middle }
.route { font-size: 11px; fill: #57606a; text-anchor: middle;
         stroke: #fff; stroke-width: 4; paint-order: stroke }
.edge { fill: none; stroke: #6e7781; stroke-width: 1.4; marker-end: url(#tip) }"""

TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="#6e7781"/></marker>'
)


def as_svg(flow: FlowGraph) -> str:
    """Draw a flow as an SVG picture, from left to right."""
    layout = laid_out(flow, width_of=_width, gap_before=_gap)
    headline = _headline(flow)
    width = max(layout.width, 8.2 * len(headline) + 2 * MARGIN)
    height = layout.height + HEAD_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="flow {flow.name}">',
        f"<defs><style>{STYLE}</style>{TIP}</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#fff"/>',
        f'<text class="flow" x="{MARGIN:.0f}" y="32">{_escaped(headline)}</text>',
        f'<g transform="translate(0 {HEAD_HEIGHT:.0f})">',
        *(f'<path class="edge" d="{_curve(way)}"/>' for way in layout.ways.values()),
        *(_box(stage, box) for stage, box in layout.boxes.items()),
        *(_route(edge, layout.ways[edge]) for edge in flow.edges if _label(edge)),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(stage: Stage, box: Box) -> str:
    fill, stroke = COLOURS[stage.kind]
    middle = box.x + box.width / 2
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{ROUNDING.get(stage.kind, 6)}" fill="{fill}" stroke="{stroke}"/>'
        f'<text class="name" x="{middle:.1f}" y="{box.y + 20:.1f}">{_escaped(stage.name)}</text>'
        f'<text class="nature" x="{middle:.1f}" y="{box.y + 35:.1f}">{_nature(stage)}</text>'
    )


def _curve(way: list[Point]) -> str:
    """Draw curves from column to column, and straight lines past the boxes."""
    (x, y), *_ = way
    parts = [f"M{x:.1f} {y:.1f}"]
    for place, ((x, y), (to_x, to_y)) in enumerate(pairwise(way)):
        if place % 2:
            parts.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            half = (x + to_x) / 2
            parts.append(f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
    return " ".join(parts)


def _route(edge: Edge, way: list[Point]) -> str:
    (x, y), (to_x, to_y) = way[-2:]
    return (
        f'<text class="route" x="{(x + to_x) / 2:.1f}" y="{(y + to_y) / 2 + 4:.1f}">'
        f"{_escaped(_label(edge))}</text>"
    )


def _width(stage: Stage) -> float:
    return max(7.9 * len(stage.name), 6.1 * len(_nature(stage)), 60.0) + 28.0


def _gap(edge: Edge) -> float:
    return max(48.0, 6.1 * len(_label(edge)) + 36.0)


def _escaped(text: str) -> str:
    return html.escape("".join(c if c.isprintable() else "�" for c in text))


# ---- words


def _headline(flow: FlowGraph) -> str:
    policy = flow.on_error if isinstance(flow.on_error, str) else "to a sink"
    instructions = f"; instructions: {', '.join(flow.instructions)}" if flow.instructions else ""
    return f"{flow.name} (on error: {policy}{instructions})"


def _nature(stage: Stage) -> str:
    """Say what a stage is, and how many workers it has, where that was said."""
    if stage.workers is None:
        return str(stage.kind)
    return f"{stage.kind}, {stage.workers} worker{'' if stage.workers == 1 else 's'}"


def _label(edge: Edge) -> str:
    """Say how events go along an edge, unless they stay on their node, and if they are late."""
    route = "" if edge.route.kind is RouteKind.LOCAL else str(edge.route)
    label = f"late {route}".strip() if edge.is_late else route
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
