"""Writes readings.jsonl: a day of five machines, whose temperatures drift and waver.

Now and then a sensor says 999.

    python examples/temperatures/make_readings.py

It is always the same day.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

READINGS = Path(__file__).with_name("readings.jsonl")
MACHINES = {"lathe": 62, "mill": 68, "oven": 82, "press": 70, "saw": 55}
MINUTES = range(0, 24 * 60, 4)


def readings() -> Iterator[dict[str, object]]:
    chance = random.Random(1)
    for minute in MINUTES:
        for number, (machine, usual) in enumerate(MACHINES.items()):
            drift = 12 * math.sin(minute / 170 + number)
            celsius = round(usual + drift + chance.gauss(0, 0.8), 1)
            if chance.random() < 0.005:
                celsius = 999.0
            time = f"{minute // 60:02d}:{minute % 60:02d}"
            yield {"machine": machine, "time": time, "celsius": celsius}


if __name__ == "__main__":
    READINGS.write_text("".join(f"{json.dumps(reading)}\n" for reading in readings()))
