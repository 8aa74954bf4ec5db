"""Watches the temperatures of machines, and reports only changes of state.

    shunter flow run examples/temperatures/flow.py
    shunter flow run --on engines --engines 2 examples/temperatures/flow.py

A machine is warm from 70 degrees on and hot from 85, and stays so until it is 3 degrees below
that: a value that wavers around a limit is no news.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shunter import Flow
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import JsonLines

READINGS = Path(__file__).with_name("readings.jsonl")
LIMITS = {"hot": 85.0, "warm": 70.0}
SLACK = 3.0


@dataclass
class Reading:
    machine: str
    time: str
    celsius: float


@dataclass
class Change:
    machine: str
    time: str
    celsius: float
    before: str
    now: str


def is_plausible(reading: Reading) -> bool:
    return -50 < reading.celsius < 300


class Watch:
    """One machine, and the state that it was in last."""

    def __init__(self) -> None:
        self.state = "ok"

    def on_event(self, reading: Reading) -> Change | None:
        before, self.state = self.state, self.state_at(reading.celsius)
        if self.state == before:
            return None
        return Change(reading.machine, reading.time, reading.celsius, before, self.state)

    def state_at(self, celsius: float) -> str:
        for state, limit in LIMITS.items():
            if celsius >= limit - (SLACK if state == self.state else 0):
                return state
        return "ok"


flow = Flow("temperatures")
readings = flow.source(JsonLines(READINGS, type=Reading), name="readings").filter(is_plausible)
changes = readings.key_by("machine").stateful(Watch, name="watch")
changes.sink(WriteJsonLines("changes.jsonl"), name="changes", workers=1)
