"""The plots of the last hour: points for the script that draws them, and SVG where there is none.

Pure. A plot has one set of points. With a script they become a plot that moves, and of each look
only the points that are new are sent. Without one, the server's SVG is what is seen. Colours and
strokes are classes of the style sheet. Text in a plot is never a stranger's.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from shunter.page.figures import clock_text

WIDTH, HEIGHT = 360, 96
DRAWN = 90
"""About how many points an SVG has."""


class Points(Struct, frozen=True):
    """Values at moments that are `step` seconds apart, a column for each line."""

    start: int
    step: int
    columns: tuple[tuple[float, ...], ...]

    def since(self, place: int) -> list[object]:
        """Return the points from one place on, as they are sent: start, step, columns."""
        return [
            self.start + place * self.step,
            self.step,
            *(column[place:] for column in self.columns),
        ]


class PlotLine(Struct, frozen=True):
    """A line: its class in the style sheet, and the word for it."""

    kind: str
    word: str


class Plot(Struct, frozen=True):
    """Some lines of one unit over the last hour."""

    title: str
    unit: str
    lines: tuple[PlotLine, ...]
    points: Points

    @property
    def present(self) -> list[tuple[PlotLine, str]]:
        """The lines, each with its last value as text."""
        last = [column[-1] if column else 0.0 for column in self.points.columns]
        return [
            (line, value_text(value, self.unit))
            for line, value in zip(self.lines, last, strict=True)
        ]


def value_text(value: float, unit: str) -> str:
    """Return a value in three figures at most, as the script writes it, too."""
    return f"{float(f'{value:.3g}'):,.10g} {unit}"


def new_points(before: Points | None, after: Points) -> list[object]:
    """Return what one who has the points of `before` needs for those of `after`; maybe nothing."""
    if before is None or before.step != after.step:
        return after.since(0)
    moved = (after.start - before.start) // after.step
    for place, values in enumerate(zip(*after.columns, strict=True)):
        known = place + moved
        if not 0 <= known < len(before.columns[0]) or values != tuple(
            column[known] for column in before.columns
        ):
            return after.since(place)
    return []


def svg(plot: Plot) -> str:
    """Draw lines over each other, the first one filled; each has its class of the style sheet."""
    columns = [thinned(column, DRAWN) for column in plot.points.columns]
    highest = max((value for column in plot.points.columns for value in column), default=0.0)
    top = _rounded_up(highest)
    drawn = "".join(
        _line(line.kind, values, top, is_filled=place == 0)
        for place, (line, values) in enumerate(zip(plot.lines, columns, strict=True))
    )
    last = ", ".join(f"{line.word} {text}" for line, text in plot.present)
    said = f"{plot.title} in the last hour: last {last}; highest {value_text(highest, plot.unit)}"
    start, step = plot.points.start, plot.points.step
    end = start + step * (len(plot.points.columns[0]) - 1)
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f"aria-label={quoteattr(said)}>"
        f'<line class="rule" x1="0" x2="{WIDTH}" y1="0.5" y2="0.5"/>'
        f'<line class="rule" x1="0" x2="{WIDTH}" y1="{HEIGHT - 0.5}" y2="{HEIGHT - 0.5}"/>'
        f"{drawn}</svg>"
        f'<span class="plot-top" aria-hidden="true">{escape(value_text(top, plot.unit))}</span>'
        f'<span class="plot-ends" aria-hidden="true"><span>{clock_text(start)[:5]}</span>'
        f"<span>{clock_text(end)[:5]}</span></span>"
    )


def thinned(values: Sequence[float], points: int) -> list[float]:
    """Return about as many values, each the mean of those in its place."""
    step = max(1, len(values) // points)
    return [
        sum(values[start : start + step]) / len(values[start : start + step])
        for start in range(0, len(values), step)
    ]


def _line(kind: str, values: Sequence[float], top: float, *, is_filled: bool) -> str:
    if len(values) < 2:
        return ""
    step = WIDTH / (len(values) - 1)
    heights = [round(HEIGHT - 1 - (HEIGHT - 4) * value / top) for value in values]
    points = " ".join(
        f"{round(place * step)},{height}"
        for place, height in enumerate(heights)
        if place in (0, len(heights) - 1)
        or not heights[place - 1] == height == heights[place + 1]  # in the middle of a flat line
    )
    area = f'<polygon class="area {kind}" points="0,{HEIGHT} {points} {WIDTH},{HEIGHT}"/>'
    return (area if is_filled else "") + f'<polyline class="line {kind}" points="{points}"/>'


def _rounded_up(value: float) -> float:
    """Return the next of 1, 2, 5 times a power of ten, at least 1."""
    size = 1.0
    while True:
        for step in (1, 2, 5):
            if value <= size * step:
                return size * step
        size *= 10
