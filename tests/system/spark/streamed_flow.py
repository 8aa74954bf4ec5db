"""A flow with keyed states, instructions, several outputs and duplicates, for streams that die.

`main` is a driver that is killed: it is called with a folder, a point and the number of a batch.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shunter import Flow
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.sinks import UpsertRows, WriteDelta, WriteJsonLines, WriteParquet

EVENTS = 100
AT_ONCE = 20
POINTS = ("before the tasks", "states written", "sinks safe", "committed", "published")


class Total:
    """Adds up, tells each sum, and tells more at a flush and at the end."""

    def __init__(self, key: int) -> None:
        self.key, self.total, self.flushes = key, 0, 0

    def on_event(self, event: dict[str, int]) -> dict[str, Any]:
        self.total += event["n"]
        return {"key": self.key, "total": self.total, "said": "sum"}

    def on_instruction(self, instruction: Instruction) -> dict[str, Any]:
        self.flushes += 1
        return {"key": self.key, "total": self.total, "said": f"{instruction.name} {self.flushes}"}


def items() -> list[Any]:
    """Numbers of seven senders, some of them twice, with a flush behind every fifty."""
    found: list[Any] = []
    for n in range(EVENTS):
        found.append({"n": n, "sender": n % 7})
        if n % 10 == 9:
            found.append({"n": n - 9, "sender": (n - 9) % 7})
        if n % 50 == 49:
            found.append(Instruction(FLUSH))
    return found


def flow_into(folder: Path) -> Flow:
    flow = Flow("streamed")
    once = flow.source(items).distinct(sender="sender", sequence="n")
    once.filter(lambda event: event["n"] % 2).sink(WriteParquet(folder / "odd"), workers=1)
    once.filter(lambda event: not event["n"] % 2).sink(WriteDelta(folder / "even"), workers=1)
    totals = once.key_by("sender").stateful(Total)
    totals.sink(WriteJsonLines(folder / "totals.jsonl"), workers=1)
    rows = totals.map(lambda told: {"key": told["key"], "total": told["total"]})
    rows.sink(UpsertRows(folder / "totals.db", "totals", key="key"), workers=1)
    return flow


def prepare(folder: Path) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "totals.db")) as database:
        database.execute("CREATE TABLE totals (key INTEGER PRIMARY KEY, total INTEGER)")


def outputs(folder: Path) -> dict[str, Counter[Any]]:
    """Read what came out, in no order."""
    import deltalake
    import pyarrow.parquet

    with closing(sqlite3.connect(folder / "totals.db")) as database:
        rows = database.execute("SELECT key, total FROM totals").fetchall()
    odd = pyarrow.parquet.read_table(folder / "odd").to_pylist()
    even = deltalake.DeltaTable(folder / "even").to_pyarrow_table().to_pylist()
    return {
        "lines": Counter((folder / "totals.jsonl").read_bytes().splitlines()),
        "odd": Counter(map(json.dumps, odd)),
        "even": Counter(map(json.dumps, even)),
        "rows": Counter(rows),
    }


def die_at(point: str, batch: int, die: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Have this driver die when a batch comes to a point."""
    from shunter.flow.runners.spark.stream.ledger import Ledger
    from shunter.flow.runners.spark.stream.plan import StreamPlan
    from shunter.flow.runners.spark.stream.run import StreamRun

    def dying(where: Any, name: str, number: Any, *, is_after: bool) -> None:
        real = getattr(where, name)

        def deadly(*arguments: Any) -> Any:
            if not is_after and number(*arguments) == batch:
                die()
            done = real(*arguments)
            if is_after and number(*arguments) == batch:
                die()
            return done

        patch.setattr(where, name, deadly)

    match point:
        case "before the tasks" | "states written":
            is_after = point == "states written"
            dying(StreamPlan, "rows_for_sinks", lambda _, __, it: it.number, is_after=is_after)
        case "sinks safe" | "committed":
            dying(Ledger, "keep", lambda _, it: it.batch, is_after=point == "committed")
        case "published":
            dying(StreamRun, "_publish", lambda it: it._last.batch, is_after=True)


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    from shunter.flow.runners.spark.stream.run import stream_on_spark

    folder, point, batch = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    die_at(point, batch, kill_myself, pytest.MonkeyPatch())
    stream_on_spark(
        flow_into(folder),
        master="local[2]",
        checkpoints=folder / "checkpoint",
        nodes=2,
        max_events=AT_ONCE,
    )
