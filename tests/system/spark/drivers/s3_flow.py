"""A stream whose checkpoint is on S3: a driver, which is called with a URL and a folder for output.

Then come its runs, each with a folder of its own for what it needs, as on another host, a number of
nodes, and after how many batches it stops; 0 is never. It prints the last batch of each.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter import Flow
from shunter.flow.location import Location
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.stream.ledger import Ledger
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.runners.spark.stream.tasks import _copies
from shunter.flow.sinks import UpsertRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, KEYS, AT_ONCE = 200, 30, 40


class Numbered:
    def __init__(self, key: int) -> None:
        self.key, self.count = key, 0

    def on_event(self, _: Any) -> dict[str, int]:
        self.count += 1
        return {"key": self.key, "count": self.count}


def flow_into(folder: Path) -> Flow:
    flow = Flow("on_s3")
    numbers = flow.source([{"key": n % KEYS} for n in range(EVENTS)], name="numbers")
    counted = numbers.key_by("key").stateful(Numbered, name="numbered")
    counted.sink(UpsertRows(folder / "counts.db", "counts", key="key"), workers=1)
    return flow


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    for run in sys.argv[3:]:
        scratch, nodes, batches = run.split(",")
        tempfile.tempdir = scratch
        os.chdir(scratch)
        print(stream(url, folder, int(nodes), int(batches)))


def stream(
    url: str, folder: Path, nodes: int, batches: int, session: SparkSession | None = None
) -> int:
    """Stream, throw away all that is on this disk, and return the number of the last batch."""
    done: list[object] = []
    with suppress(Stopped):
        stream_on_spark(
            flow_into(folder),
            session,
            master="local[2]",
            checkpoints=url,
            nodes=nodes,
            max_events=AT_ONCE,
            progress=done.append,
            should_stop=lambda: 0 < batches <= len(done),
        )
    shutil.rmtree(_copies())
    commit = Ledger(Location.of(url), "reader").last()
    assert commit is not None
    return commit.batch
