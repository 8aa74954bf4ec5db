"""States of a stream on Spark: micro-batches of a thousand events at few and at a million keys.

In one session, in turns, with the flow of `spark_streaming`; then how long a stream with a million
keys needs from its start to its first committed batch, each time with nothing left in memory but
Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from bench.spark_streaming import NODES, WARM_UP, between, flow_of
from bench.stage import Stage, conclude, say, sizes
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.stream.run import stream_on_spark

FEW_KEYS = 1_000
ENDLESS = 10**12
FILL_EVENTS = 200_000


def _stream(
    session: Any, folder: Path, keys: int, at_once: int, is_enough: Callable[[int, int], bool]
) -> list[float]:
    """Go on until so many batches and events are enough; return when each batch was done."""
    folder.mkdir(exist_ok=True)
    done: list[float] = []
    events = 0

    def note(reports: Any) -> None:
        nonlocal events
        events = reports[0].given
        done.append(time.monotonic())

    with suppress(Stopped):
        stream_on_spark(
            flow_of(folder, ENDLESS, keys),
            session,
            checkpoints=folder / "checkpoint",
            nodes=NODES,
            max_events=at_once,
            progress=note,
            should_stop=lambda: is_enough(len(done), events),
        )
    return done


def main() -> None:
    chosen = sizes(__doc__ or "", events=1_000, batches=30, keys=1_000_000, rounds=3)
    total = 3 * chosen.rounds + 1
    runs: dict[int, list[float]] = {FEW_KEYS: [], chosen.keys: []}
    restarts: list[float] = []
    with Stage() as stage:
        session = spark_session(f"local[{NODES}]")
        folders = {keys: stage.folder / f"keys-{keys}" for keys in runs}
        say(f"filling {chosen.keys:,} keys", 0, total)
        _stream(
            session, folders[chosen.keys], chosen.keys, FILL_EVENTS,
            lambda _, events: events >= chosen.keys,
        )  # fmt: skip
        enough = WARM_UP + chosen.batches
        for number in range(chosen.rounds):
            for place, (keys, found) in enumerate(runs.items()):
                say(f"{keys:,} keys", 3 * number + place + 1, total)
                done = _stream(
                    session, folders[keys], keys, chosen.events, lambda count, _: count >= enough
                )
                found += between(done)
            say("restart", 3 * number + 3, total)
            began = time.monotonic()
            done = _stream(
                session,
                folders[chosen.keys],
                chosen.keys,
                chosen.events,
                lambda count, _: count > 0,
            )
            restarts.append(done[0] - began)
    few, many = median(runs[FEW_KEYS]), median(runs[chosen.keys])
    conclude(
        events=chosen.events,
        keys=chosen.keys,
        few=few,
        many=many,
        ratio=many / few,
        restart=median(restarts),
        load=os.getloadavg()[0],
        runs={str(keys): found for keys, found in runs.items()},
        restarts=restarts,
    )


if __name__ == "__main__":
    main()
