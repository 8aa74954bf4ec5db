"""What changed on a page since it was last sent. Pure.

A page has regions, each a piece of markup, lists of rows with a name each, and plots. Only regions
and rows that differ are sent, and of plots the points that are new. How long ago something was
changes all the time and is counted by the browser, so the text of a <time> is no difference.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from shunter.page.plots import Points, new_points

_AGE = re.compile(r"(<time\b[^>]*>)[^<]*(?=</time>)")

Rows = dict[str, str]


class Snapshot(Struct, frozen=True):
    """The parts of a page that change, as they are at one moment."""

    regions: dict[str, str] = {}
    lists: dict[str, Rows] = {}
    plots: dict[str, Points] = {}

    @property
    def digest(self) -> str:
        """The same for two snapshots that look the same."""
        found = blake2b(digest_size=12)
        for name, markup in sorted(self.regions.items()):
            found.update(f"{name}\0{essence(markup)}\0".encode(errors="replace"))
        for name, rows in sorted(self.lists.items()):
            found.update(f"{name}\1".encode())
            for row, markup in rows.items():
                found.update(f"{row}\0{essence(markup)}\0".encode(errors="replace"))
        for name, points in sorted(self.plots.items()):
            found.update(f"{name}\2{points.since(0)}\0".encode())
        return found.hexdigest()


def essence(markup: str) -> str:
    """Return markup without what browsers count by themselves."""
    return _AGE.sub(r"\1", markup)


def changes(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """Return what a browser that shows `before` needs to show `after`; nothing if it does."""
    regions = {
        name: markup
        for name, markup in after.regions.items()
        if essence(markup) != essence(before.regions.get(name, "\0"))
    }
    lists = {
        name: change
        for name, rows in after.lists.items()
        if (change := _row_changes(before.lists.get(name), rows))
    }
    plots = {
        name: fresh
        for name, points in after.plots.items()
        if (fresh := new_points(before.plots.get(name), points))
    }
    found = {"regions": regions, "lists": lists, "plots": plots}
    return {kind: part for kind, part in found.items() if part}


def _row_changes(before: Rows | None, after: Rows) -> dict[str, Any]:
    known = before or {}
    changed = {
        name: markup
        for name, markup in after.items()
        if essence(markup) != essence(known.get(name, "\0"))
    }
    if not changed and before is not None and list(before) == list(after):
        return {}
    return {"order": list(after), "rows": changed}
