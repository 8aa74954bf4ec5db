"""A flow for tests: numbers from a file, the running sum of each key, into files of JSON lines.

FLOW_FOLDER says where its files are, FLOW_PAUSE how long each batch takes, FLOW_FAIL at which
number it raises.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from shunter import Flow
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import JsonLines

FOLDER = Path(os.environ.get("FLOW_FOLDER", "."))
PAUSE = float(os.environ.get("FLOW_PAUSE", "0"))
FAIL = int(os.environ.get("FLOW_FAIL", "-1"))
KEYS = 100


class RunningSum:
    def __init__(self, key):
        self.key, self.total, self.count = key, 0, 0

    def on_event(self, number):
        self.total += number
        self.count += 1
        return {"key": self.key, "count": self.count, "total": self.total}


def slowly(number):
    if PAUSE and not number % 100:
        time.sleep(PAUSE)
    if number == FAIL:
        raise ValueError("as the test wants")
    return number


def key_of(number):
    return number % KEYS


flow = Flow("counting")
numbers = flow.source(JsonLines(FOLDER / "numbers.jsonl"), name="numbers").balanced().map(slowly)
sums = numbers.key_by(key_of).stateful(RunningSum, any_order=True, name="sums")
sums.sink(WriteJsonLines(FOLDER / "sums.jsonl"), name="out")
