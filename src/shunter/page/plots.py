"""Small plots as SVG: made by the server, so that they are there without a script. Pure.

Colours and strokes are classes of the style sheet. Text in a plot is never a stranger's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

from shunter.page.figures import count_text

WIDTH, HEIGHT = 360, 64


def area_plot(
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    label: str,
    text: Callable[[float], str] = count_text,
) -> str:
    """Draw lines over each other, the first one filled; each has its class of the style sheet."""
    highest = max((value for _, values in series for value in values), default=0.0)
    top = _rounded_up(highest)
    drawn = "".join(
        _line(kind, values, top, is_filled=place == 0)
        for place, (kind, values) in enumerate(series)
    )
    last = ", ".join(f"{kind} {text(values[-1])}" for kind, values in series if values)
    said = f"{label}: last {last}; highest {text(highest)}"
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f"aria-label={quoteattr(said)}>"
        f'<line class="rule" x1="0" x2="{WIDTH}" y1="0.5" y2="0.5"/>'
        f'<line class="rule" x1="0" x2="{WIDTH}" y1="{HEIGHT - 0.5}" y2="{HEIGHT - 0.5}"/>'
        f"{drawn}</svg>"
        f'<span class="plot-top" aria-hidden="true">{escape(text(top))}</span>'
    )


def thinned(values: Sequence[float], points: int, *, per: float = 1.0) -> list[float]:
    """Return as many values, each the mean of those in its place, divided by `per`."""
    step = max(1, len(values) // points)
    return [
        sum(values[start : start + step]) / len(values[start : start + step]) / per
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
