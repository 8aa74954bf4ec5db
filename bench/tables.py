"""The tables: on the terminal, and in the generated part of docs/benchmarks.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.figures import Figures
from bench.stage import REPOSITORY
from bench.targets import STORE_NAMES, speeds_of, verdicts

PAGE = REPOSITORY / "docs" / "benchmarks.md"
PART = re.compile(r"(<!-- made by bench/tables\.py -->\n).*?(<!-- end -->)", re.DOTALL)

_NAMES = {
    "limit": "the limit: bare ZeroMQ and SQLite",
    "jobs": "**Shunter**",
    "celery": "Celery {version} on Redis",
    "huey": "Huey {version} on SQLite, fsync on",
    "ray": "Ray {version}",
    "procrastinate": "Procrastinate {version} on PostgreSQL, fsync on",
}
PARTS = (
    "limit",
    "jobs",
    "queue",
    "dispatchers",
    "http",
    "secured",
    "limits",
    "naps",
    "udp",
    "workflows",
    "steps",
    "idle",
    "page",
    "flows",
    "spark",
    "files",
    "cluster",
    "driver",
    "keyed",
    "streaming",
    "states",
)


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


def by_dispatchers(figures: Figures) -> list[tuple[str, ...]]:
    """List jobs per second for each store, by the number of dispatchers; the head comes first."""
    stores = figures.get("dispatchers", {})
    found = {name: speeds_of(stores.get(store, {})) for store, name in STORE_NAMES.items()}
    counts = next((tuple(speeds) for speeds in found.values() if speeds), ())
    head = ("jobs/s", *(f"{count} dispatcher{'s' if count != '1' else ''}" for count in counts))
    rows = [
        (f"**Shunter** on {name}", *(f"{speed:,.0f}" for speed in speeds.values()))
        for name, speeds in found.items()
        if speeds
    ]
    return [head, *rows] if rows else []


def over_udp(figures: Figures) -> list[tuple[str, ...]]:
    """List packets and tasks per second over UDP; the head comes first."""
    if "udp" not in figures:
        return []
    echo, tasks = figures["udp"]["echo"], figures["udp"]["shunter"]
    return [
        ("over UDP", "a second", "p50 ms", "p99 ms"),
        (
            "packets of a bare JSON echo",
            f"{echo['packets_per_second']:,.0f}",
            f"{echo['p50_ms']:.2f}",
            f"{echo['p99_ms']:.2f}",
        ),
        (
            "**Shunter**: tasks, of eight packets each",
            f"{tasks['tasks_per_second']:,.0f}",
            f"{tasks['p50_ms']:.2f}",
            f"{tasks['p99_ms']:.2f}",
        ),
    ]


def flows(figures: Figures) -> list[tuple[str, ...]]:
    """List events per second through a flow of running sums; the head comes first."""
    found = figures.get("flows", {})
    names = {
        "bare_loop": "a bare Python loop",
        "bytewax": "Bytewax 0.21, one worker",
        "one_process": "**Shunter**, in one process",
        "two_engines": "**Shunter**, two engines over IPC",
    }
    rows = [(name, f"{found[key]:,.0f}") for key, name in names.items() if key in found]
    return [("running sums by key", "events/s"), *rows] if rows else []


def streams(figures: Figures) -> list[tuple[str, ...]]:
    """List how long micro-batches take on Spark; the head comes first."""
    found = figures.get("streaming", {})
    names = {
        "ours": "**Shunter**, 1,000 keys",
        "by_hand": "a query by hand, 1,000 keys",
        "keys_10000": "**Shunter**, 10,000 keys",
        "keys_100000": "**Shunter**, 100,000 keys",
    }
    rows = [(text, f"{found[name] * 1000:,.0f}") for name, text in names.items() if name in found]
    many = figures.get("states", {})
    if many:
        rows.append((f"**Shunter**, {many['keys']:,} keys", f"{many['many'] * 1000:,.0f}"))
    if not rows:
        return []
    events = (found or many)["events"]
    return [(f"batches of {events:,} events, with a state per key", "median ms"), *rows]


def on_spark(figures: Figures) -> list[tuple[str, ...]]:
    """List events per second on Spark, of flows and of programs by hand; the head comes first."""
    found = figures.get("spark", {})
    names = {
        "functions": "a Python function for each event, then sums by key",
        "expressions": "Spark's own expressions, then sums by key",
        "states": "an object of Python's for each key",
    }
    rows = [
        (text, f"{found[f'{name}_flow']:,.0f}", f"{found[f'{name}_hand']:,.0f}")
        for name, text in names.items()
        if f"{name}_flow" in found
    ]
    if not rows:
        return []
    start = f"on Spark; a session starts in {found['session_seconds']:.1f} s"
    return [(start, "**Shunter**, events/s", "by hand, events/s"), *rows]


def keyed(figures: Figures) -> list[tuple[str, ...]]:
    """List events per second into states of very many keys; the head comes first."""
    found = figures.get("keyed", {})
    names = {
        "straight": "from Parquet into an object for each key",
        "mapped": "through a Python function into an object for each key",
    }
    rows = [
        (text, f"{found[f'{name}_flow']:,.0f}", f"{found[f'{name}_hand']:,.0f}")
        for name, text in names.items()
        if f"{name}_flow" in found
    ]
    if not rows:
        return []
    memory = (
        "the largest Python process, MB",
        f"{found['flow_mb']:.0f}",
        f"{found['hand_mb']:.0f}",
    )
    head = f"{found['events']:,} events of {found['keys']:,} keys"
    return [(head, "**Shunter**, events/s", "by hand, events/s"), *rows, memory]


def show(figures: Figures, console: Console) -> None:
    """Print the tables, then what missed its target."""
    table = Table("", "jobs/s", "p50 ms", "p99 ms", title="No-op jobs, results returned")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in comparison(figures):
        table.add_row(row.name.strip("*"), row.jobs_per_second, row.p50, row.p99)
    console.print(table)
    for title, lines in (
        ("Several dispatchers over one store", by_dispatchers(figures)),
        ("Clients and calculators over UDP", over_udp(figures)),
        ("Flows", flows(figures)),
        ("Flows on Spark", on_spark(figures)),
        ("Keyed state on Spark", keyed(figures)),
        ("Streams on Spark", streams(figures)),
    ):
        if lines:
            table = Table(*lines[0], title=title)
            for line in lines[1:]:
                table.add_row(*(cell.replace("*", "") for cell in line))
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
    tables = (
        by_dispatchers(figures), over_udp(figures), flows(figures), on_spark(figures),
        keyed(figures), streams(figures),
    )  # fmt: skip
    others = [lines for lines in tables if lines]
    parts = {name: figures[name] for name in PARTS if name in figures}
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
            *(text for lines in others for text in (_markdown(lines[0], lines[1:]), "")),
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
