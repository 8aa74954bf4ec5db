"""The plots of a report, as SVG that takes its text's colour from the page around it."""

from __future__ import annotations

import importlib
import io
import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from shunter.errors import FlowError
from shunter.reporting.document import HistoryReport, Spread, TypeReport
from shunter.reporting.wording import span_of

INK = "#010203"
"""Stands for the colour of the page's text, and is replaced by it."""

COLOURS = {"completed": "#3b8ea5", "failed": "#d1495b", "cancelled": "#c9a227"}
MEDIAN, HIGH, MOST = "#3b8ea5", "#e08e45", "#8d7fb8"
MOST_ROWS = 15
WIDTH = 9.6

STYLE = {
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 12,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",
}


_STYLE_ELEMENT = re.compile(r"<style[^>]*>.*?</style>", re.DOTALL)
_STYLE_ATTRIBUTE = re.compile(r' style="([^"]*)"')


def matplotlib(module: str = "matplotlib") -> Any:
    """Import a part of matplotlib, or raise a FlowError that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FlowError(
            f"a report needs matplotlib, and it can't be imported ({error}); type: "
            "pip install 'shunter[report]'"
        ) from error


def svg(report: HistoryReport, draw: Callable[[HistoryReport], Any]) -> str:
    """Return a plot as an SVG element, without anything that changes from run to run."""
    written = io.BytesIO()
    with matplotlib().rc_context({**STYLE, "svg.hashsalt": draw.__name__}):
        figure = draw(report)
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue().decode()
    return _without_styles(text[text.index("<svg") :].replace(INK, "currentColor"))


def _without_styles(drawn: str) -> str:
    """Say by attributes what was said by styles, which the page's policy lets nobody write.

    The one rule for all elements becomes two attributes of the whole, which all inherit.
    """
    drawn = _STYLE_ELEMENT.sub("", drawn)
    drawn = drawn.replace("<svg ", '<svg stroke-linejoin="round" stroke-linecap="butt" ', 1)
    return _STYLE_ATTRIBUTE.sub(_attributes, drawn)


def _attributes(found: re.Match[str]) -> str:
    said = (each.partition(":") for each in found[1].split(";") if each.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in said)


def throughput(report: HistoryReport) -> Any:
    """Draw how many jobs ended in each interval, and how."""
    figure, axes = _figure(3.2)
    starts = [interval.start for interval in report.throughput]
    width = report.interval_seconds
    floor = [0] * len(starts)
    for status, colour in COLOURS.items():
        counts = [getattr(interval, status) for interval in report.throughput]
        if status == "completed" or any(counts):
            axes.bar(starts, counts, width * 0.9, floor, align="edge", color=colour, label=status)
        floor = [below + count for below, count in zip(floor, counts, strict=True)]
    axes.set_ylabel(f"jobs per {span_of(width)}")
    axes.yaxis.grid(visible=True)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.01)
    _time_axis(axes, starts, width)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    return figure


def times(report: HistoryReport) -> Any:
    """Draw how long jobs waited and ran, by type: median, 95 % and the longest."""
    types = list(reversed(report.types[:MOST_ROWS]))
    figure, (left, right) = _figure(_height(types), columns=2)
    _spreads(left, types, [each.waiting for each in types], "waited for a worker")
    _spreads(right, types, [each.run for each in types], "ran")
    right.tick_params(labelleft=False)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3)
    return figure


def failures(report: HistoryReport) -> Any:
    """Draw which part of the jobs of each type failed or was cancelled."""
    types = list(reversed(_failing(report)))
    figure, axes = _figure(_height(types))
    rows, left = range(len(types)), [0.0] * len(types)
    for status in ("failed", "cancelled"):
        shares = [100 * getattr(each, status) / each.jobs for each in types]
        if any(shares):
            axes.barh(rows, shares, 0.6, left, color=COLOURS[status], label=status)
        left = [before + share for before, share in zip(left, shares, strict=True)]
    for row, (each, end) in enumerate(zip(types, left, strict=True)):
        told = f"{each.failed + each.cancelled:,} of {each.jobs:,}"
        beside = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(told, (end, row), fontsize=10, **beside)
    axes.set_yticks(rows, [_short(each.type) for each in types])
    axes.set_xlabel("per cent of the type's jobs")
    axes.set_xlim(0, min(118.0, max(left, default=1.0) * 1.25 + 1))
    axes.xaxis.grid(visible=True)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    return figure


def workers(report: HistoryReport) -> Any:
    """Draw how many jobs each worker ran at once, over time."""
    shown = report.workers[:MOST_ROWS]
    figure, axes = _figure(_height(shown))
    starts = [interval.start for interval in report.throughput]
    width = report.interval_seconds
    most = max((max(each.load, default=0.0) for each in shown), default=0.0)
    image = axes.pcolormesh(
        [*starts, starts[-1] + width],
        range(len(shown) + 1),
        [each.load for each in reversed(shown)],
        cmap=_fading(),
        vmin=0,
        vmax=max(most, 1.0),
        edgecolors="none",
        rasterized=False,
    )
    rows = [row + 0.5 for row in range(len(shown))]
    axes.set_yticks(rows, [_short(each.worker) for each in reversed(shown)])
    axes.tick_params(axis="y", length=0)
    _time_axis(axes, starts, width)
    bar = figure.colorbar(image, ax=axes, pad=0.02, shrink=max(0.4, 1 - len(shown) / 30))
    bar.set_label("jobs at once")
    bar.outline.set_visible(False)
    return figure


# ---- parts of plots


def _figure(height: float, *, columns: int = 1) -> tuple[Any, Any]:
    made = matplotlib("matplotlib.figure").Figure((WIDTH, height), layout="constrained")
    return made, made.subplots(1, columns)


def _height(rows: Sequence[Any]) -> float:
    return 1.3 + 0.34 * max(2, len(rows))


def _short(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:13]}…{name[-14:]}"


def _failing(report: HistoryReport) -> list[TypeReport]:
    worst = sorted(report.types, key=lambda each: -(each.failed + each.cancelled))
    return [each for each in worst if each.failed + each.cancelled][:MOST_ROWS]


def _spreads(
    axes: Any, types: Sequence[TypeReport], spreads: Sequence[Spread | None], title: str
) -> None:
    known = [(row, spread) for row, spread in enumerate(spreads) if spread is not None]
    rows = [row for row, _ in known]
    axes.hlines(
        rows, [_shown(s.p50) for _, s in known], [_shown(s.max) for _, s in known], INK, alpha=0.3
    )
    for name, colour, label in (
        ("p50", MEDIAN, "median"), ("p95", HIGH, "95 %"), ("max", MOST, "longest"),
    ):  # fmt: skip
        values = [_shown(getattr(spread, name)) for _, spread in known]
        axes.scatter(values, rows, s=42, color=colour, label=label, zorder=3)
    axes.set_yticks(range(len(types)), [_short(each.type) for each in types])
    axes.set_ylim(-0.6, len(types) - 0.4)
    _seconds_axis(axes, [value for _, s in known for value in (_shown(s.p50), _shown(s.max))])
    axes.set_title(title)


def _shown(seconds: float) -> float:
    """Return what a logarithmic axis can show."""
    return max(seconds, 1e-4)


_TICKS = (
    1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0,
)  # fmt: skip


def _seconds_axis(axes: Any, values: Sequence[float]) -> None:
    axes.set_xscale("log")
    low, high = min(values, default=0.01) / 1.5, max(values, default=1.0) * 1.5
    within = [at for at, tick in enumerate(_TICKS) if low <= tick <= high]
    first = max(0, (within[0] if within else _first_above(low)) - 1)
    last = min(len(_TICKS) - 1, (within[-1] if within else first) + 1)
    ticks = _TICKS[first : last + 1]
    axes.set_xlim(min(low, ticks[0] * 0.9), max(high, ticks[-1] * 1.1))
    axes.set_xticks(ticks, [span_of(tick) for tick in ticks], rotation=0)
    axes.set_xticks([], minor=True)
    axes.xaxis.grid(visible=True)


def _first_above(low: float) -> int:
    return next((at for at, tick in enumerate(_TICKS) if tick > low), len(_TICKS) - 1)


_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172800, 604800, 2592000,
)  # fmt: skip


def _time_axis(axes: Any, starts: Sequence[float], width: float) -> None:
    """Mark round times of the day in UTC, with dates where there is more than one."""
    begin, end = starts[0], starts[-1] + width
    step = next((each for each in _STEPS if (end - begin) / each <= 10), _STEPS[-1])
    ticks = range(math.ceil(begin / step) * step, int(end) + 1, step)
    is_long = end - begin > 86400
    pattern = "%d %b\n%H:%M" if is_long and step < 86400 else "%d %b" if is_long else "%H:%M"
    if step < 60:
        pattern = "%H:%M:%S"
    axes.set_xticks(ticks, [time.strftime(pattern, time.gmtime(at)) for at in ticks])
    axes.set_xlim(begin, end)
    days = dict.fromkeys(time.strftime("%d %B %Y", time.gmtime(at)) for at in (begin, end - 1))
    axes.set_xlabel("time (UTC)" if is_long else f"{' to '.join(days)}, time (UTC)")


def _fading() -> Any:
    """Return colours from nothing at all to strong, which are seen on light and dark pages."""
    colours = matplotlib("matplotlib.colors")
    strong = colours.to_rgb(COLOURS["completed"])
    return colours.LinearSegmentedColormap.from_list("load", [(*strong, 0.06), (*strong, 1.0)])
