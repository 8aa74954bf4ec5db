"""Markup from templates: every value is escaped, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shunter.model.job import in_one_line
from shunter.page import figures, plots
from shunter.page.changes import Snapshot
from shunter.page.view import View
from shunter.shown_text import shown

MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def templates() -> Environment:
    """Return the templates that come with the package."""
    found = Environment(
        loader=PackageLoader("shunter.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "span": figures.span_text,
        "skew": figures.skew_text,
        "count": figures.count_text,
        "rate": figures.rate_text,
        "size": figures.bytes_text,
        "moment": figures.moment_text,
        "clock": figures.clock_text,
        "machine": figures.machine_time,
        "one_line": in_one_line,
        "plot": lambda plot: Markup(plots.svg(plot)),  # noqa: S704
        "points": lambda plot: msgspec.json.encode(plot.points.since(0)).decode(),
    }
    return found


def _visible(value: Any) -> Any:
    """Return what is put into a template, with control characters to be seen and not obeyed."""
    return shown(value) if type(value) is str else value


class Drawn(NamedTuple):
    """What a view was drawn of, and what came out."""

    data: Mapping[str, Any]
    snapshot: Snapshot


def snapshot(view: View, data: Mapping[str, Any]) -> Snapshot:
    """Return the parts of a view that change, as markup."""
    return drawn(view, data).snapshot


def drawn(view: View, data: Mapping[str, Any], before: Drawn | None = None) -> Drawn:
    """Draw a view; what was drawn before of the same is taken from there."""
    if before is not None and before.data == data:
        return before
    parts = templates().get_template(f"{view.name}_parts.html").make_module(dict(data))
    regions = {name: str(getattr(parts, name)()) for name in view.regions}
    lists = {}
    for name, macro in view.lists.items():
        known = {} if before is None else before.data[name]
        rows = {} if before is None else before.snapshot.lists[name]
        draw = getattr(parts, macro)
        lists[name] = {
            row: rows[row] if row in rows and known[row] == item else str(draw(item))
            for row, item in data[name].items()
        }
    points = {name: it.points for name, it in data["plots"].items()} if view.has_plots else {}
    return Drawn(data, Snapshot(regions, lists, points))


def page(name: str, values: Mapping[str, Any]) -> str:
    """Return a whole page."""
    return templates().get_template(f"{name}.html").render(values)


def marked(found: Snapshot) -> dict[str, Any]:
    """Return a snapshot for a template: its markup was escaped when it was made."""
    return {
        "regions": {name: Markup(markup) for name, markup in found.regions.items()},  # noqa: S704
        "rows": {
            name: Markup("").join(Markup(markup) for markup in rows.values())  # noqa: S704
            for name, rows in found.lists.items()
        },
    }


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """Return a file that pages refer to, and its media type."""
    known = {it.name: it for it in _files_in(files("shunter.page").joinpath("static"))}
    media_type = MEDIA_TYPES.get(name.rpartition(".")[2])
    if name not in known or media_type is None:
        return None
    return known[name].read_bytes(), media_type


def _files_in(folder: Traversable) -> Iterator[Traversable]:
    for it in folder.iterdir():
        if it.is_dir():
            yield from _files_in(it)
        else:
            yield it
