"""Writes visits.jsonl: some minutes of a small website, whose pages are read by people and robots.

Visits come roughly in the order of their times, a few of them much too late.

    python examples/visits/make_visits.py

They are always the same visits.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

VISITS = Path(__file__).with_name("visits.jsonl")
PAGES = ["/", "/prices", "/docs", "/docs/flows", "/imprint"]
MIDNIGHT = 1_795_737_600
COUNT = 1_000


def visits() -> Iterator[dict[str, object]]:
    chance = random.Random(2)
    now = float(MIDNIGHT)
    for _ in range(COUNT):
        now += chance.expovariate(2.0)
        delay = chance.choice([200.0, 400.0]) if chance.random() < 0.01 else 20 * chance.random()
        yield {
            "page": chance.choices(PAGES, weights=[8, 4, 4, 2, 1])[0],
            "visitor": "robot" if chance.random() < 0.1 else f"v{chance.randrange(300)}",
            "at": round(now - delay, 1),
            "milliseconds": int(chance.lognormvariate(4, 0.7)),
        }


if __name__ == "__main__":
    VISITS.write_text("".join(f"{json.dumps(visit)}\n" for visit in visits()))
