"""The tables: on the terminal, and in the generated part of docs/benchmarks.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.figures import Figures, verdicts
from bench.stage import REPOSITORY

PAGE = REPOSITORY / "docs" / "benchmarks.md"
PART = re.compile(r"(<!-- made by bench/tables\.py -->\n).*?(<!-- end -->)", re.DOTALL)

_NAMES = {
    "limit": "the limit: bare ZeroMQ and SQLite",
    "jobs": "**Shunter**",
    "celery": "Celery {version} on Redis",
    "huey": "Huey {version} on SQLite, fsync on",
    "ray": "Ray {version}",
}


class Row(NamedTuple):
    """One line of the comparison."""

    name: str
    jobs_per_second: str
    p50: str
    p99: str
    command: str


def comparison(figures: Figures) -> list[Row]:
    """List everybody that was measured, the limit first."""
    measured = {
        **{name: figures[name] for name in ("limit", "jobs") if name in figures},
        **figures.get("peers", {}),
    }
    rows = []
    for name, found in measured.items():
        label = _NAMES[name].format(version=found.get("version", ""))
        if "skipped" in found:
            rows.append(Row(label, f"skipped: {found['skipped']}", "", "", ""))
            continue
        option = "" if name in ("limit", "jobs") else "--peers "
        speed = f"{found['jobs_per_second']:,.0f}"
        command = f"python -m bench {option}--only {name}"
        rows.append(Row(label, speed, f"{found['p50_ms']:.2f}", f"{found['p99_ms']:.2f}", command))
    return rows


def show(figures: Figures, console: Console) -> None:
    """Print both tables, then what missed its target."""
    table = Table("", "jobs/s", "p50 ms", "p99 ms", title="No-op jobs, results returned")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in comparison(figures):
        table.add_row(row.name.strip("*"), row.jobs_per_second, row.p50, row.p99)
    console.print(table)
    found = verdicts(figures)
    table = Table("", "found", "target", "", title="Targets")
    for verdict in found:
        mark = "[green]met[/]" if verdict.is_met else "[bold red]missed[/]"
        table.add_row(verdict.what, verdict.found, verdict.wanted, mark)
    console.print(table)
    for verdict in found:
        if not verdict.is_met:
            missed = f"missed: {verdict.what}: {verdict.found}; wanted: {verdict.wanted}"
            console.print(missed, style="bold red", soft_wrap=True)
    if found and all(verdict.is_met for verdict in found):
        console.print(f"all {len(found)} targets met", style="green")


def rewrite_page(figures: Figures) -> None:
    """Bring the generated part of docs/benchmarks.md up to date."""
    page = PAGE.read_text()
    PAGE.write_text(PART.sub(lambda part: part[1] + _page_part(figures) + part[2], page))


def _page_part(figures: Figures) -> str:
    machine = figures.get("machine", {})
    where = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine.items())
    marks = ("**missed**", "met")
    targets = ((v.what, v.found, v.wanted, marks[v.is_met]) for v in verdicts(figures))
    rows = ((*row[:-1], f"`{row.command}`" if row.command else "") for row in comparison(figures))
    parts = {name: figures[name] for name in ("limit", "jobs", "queue") if name in figures}
    parts |= figures.get("peers", {})
    when = "; ".join(
        f"{name} {found['measured']}" + (f" at {found['commit']}" if "commit" in found else "")
        for name, found in parts.items()
        if "measured" in found
    )
    return "\n".join(
        [
            _markdown(("what", "jobs/s", "p50 ms", "p99 ms", "measured by"), rows),
            "",
            _markdown(("target", "found", "wanted", ""), targets),
            "",
            f"Measured: {when}.",
            "",
            f"Machine: {where}.",
            "",
        ]
    )


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
