"""What a campaign came to, as a table for people and as JSON for programs."""

from __future__ import annotations

import msgspec
from rich.table import Table

from shunter.model.lifecycle import TRANSITIONS
from shunter.testing.simulation.campaign import Findings
from shunter.testing.simulation.scenario import FaultKind


def virtual_hours_per_minute(found: Findings, took: float) -> float:
    return (found.virtual_seconds / 3600) / (max(took, 1e-9) / 60)


def summary_table(found: Findings, took: float) -> Table:
    """Return what was covered, and how fast."""
    speed = f"{found.seeds / max(took, 1e-9):.1f} seeds/s"
    hours = f"{virtual_hours_per_minute(found, took):.1f} virtual hours per minute"
    held = f"{len(found.violations)} violations" if found.violations else "everything held"
    title = f"{found.seeds} seeds in {took:.1f} s: {held} ({speed}, {hours})"
    table = Table(title=title, title_justify="left")
    table.add_column("transition")
    table.add_column("times", justify="right")
    table.add_column("fault")
    table.add_column("times", justify="right")
    steps = [(f"{s.word} · {e.value}", found.events[s, e]) for s, e in TRANSITIONS]
    faults = [(kind.value, found.faults[kind]) for kind in FaultKind]
    for index in range(max(len(steps), len(faults))):
        left = steps[index] if index < len(steps) else ("", "")
        right = faults[index] if index < len(faults) else ("", "")
        table.add_row(left[0], str(left[1]), right[0], str(right[1]))
    for seed, violation in found.violations[:20]:
        table.add_row(f"[red]seed {seed}", f"{violation.at:.1f} s", violation.rule, "")
    return table


def summary_document(found: Findings, took: float) -> str:
    """Return the same as JSON."""
    document = {
        "seeds": found.seeds,
        "seconds": round(took, 2),
        "seeds_per_second": round(found.seeds / max(took, 1e-9), 2),
        "virtual_hours_per_minute": round(virtual_hours_per_minute(found, took), 2),
        "steps": found.steps,
        "transitions": {f"{s.word} {e.value}": found.events[s, e] for s, e in TRANSITIONS},
        "faults": {kind.value: found.faults[kind] for kind in FaultKind},
        "violations": [
            {"seed": seed, "rule": v.rule, "at": v.at, "detail": v.detail}
            for seed, v in found.violations
        ],
    }
    return msgspec.json.encode(document).decode()
