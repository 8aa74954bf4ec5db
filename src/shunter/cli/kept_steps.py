"""The steps of a job and what it waits for, as `shunter job` shows them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from shunter.cli.terminal import Terminal
from shunter.codec import is_sealed, label_of, shown_label
from shunter.model.journal import JournalEntry
from shunter.model.waits import WaitKind, Waits
from shunter.shown_text import shown

MOST_SHOWN = 200


def waits_text(waits: Waits) -> str:
    """Say what a parked job waits for."""
    name = shown(waits.name)
    match waits.kind:
        case WaitKind.SLEEP:
            return f"its sleep {name!r}"
        case WaitKind.SIGNAL:
            return f"signal {shown(waits.signal)!r} (step {name!r})"
        case WaitKind.CHILDREN:
            return f"{waits.children} jobs (step {name!r})"


def print_steps(console: Terminal, steps: Sequence[JournalEntry]) -> None:
    """Print a line for each kept step: when, how long it took, by which attempt, its result."""
    if not steps:
        return
    console.rule("steps that are kept", align="left")
    for step in steps:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(step.at))
        by = "copied" if step.attempt < 1 else f"attempt {step.attempt}"
        line = f"{at}  {shown(step.key)}  {step.seconds:.3f} s  {by}  {shown(_result(step.body))}"
        console.print(line, highlight=False, soft_wrap=True)


def step_document(step: JournalEntry) -> dict[str, Any]:
    """Write a kept step for programs."""
    sealed = is_sealed(step.body)
    result = shown_label(label_of(step.body)) if sealed else msgspec.msgpack.decode(step.body)
    return {
        "name": step.key,
        "attempt": step.attempt,
        "at": step.at,
        "seconds": step.seconds,
        "result": result,
    }


def _result(body: bytes) -> str:
    if is_sealed(body):
        return f"{shown_label(label_of(body))}, {len(body):,} bytes"
    text = repr(msgspec.msgpack.decode(body))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(body):,} bytes)"
