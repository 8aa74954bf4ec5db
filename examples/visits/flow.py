"""Counts the visits of each page by the minute, and keeps apart those that come too late.

    shunter flow run examples/visits/flow.py
    shunter flow run --stream --checkpoints checkpoints/ examples/visits/flow.py

Minutes are those of the visits, not of the clock: a minute is over when a visit has come that is
half a minute younger than its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shunter import Flow
from shunter.flow import ApproxDistinct, Count, Max, Mean, Window
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import JsonLines, Watermarked

VISITS = Path(__file__).with_name("visits.jsonl")
MINUTE = 60
LATENESS = 30


@dataclass
class Visit:
    page: str
    visitor: str
    at: float
    milliseconds: int


def is_person(visit: Visit) -> bool:
    return visit.visitor != "robot"


flow = Flow("visits")
read = Watermarked(JsonLines(VISITS, type=Visit), time="at", lateness=LATENESS, every=50)
people = flow.source(read, name="visits").filter(is_person)
minutes = people.key_by("page").aggregate(
    visits=Count(),
    visitors=ApproxDistinct("visitor"),
    slowest=Max("milliseconds"),
    mean=Mean("milliseconds"),
    window=Window(MINUTE, time="at"),
    name="minutes",
)
minutes.sink(WriteJsonLines("minutes.jsonl"), name="by-minute", workers=1)
minutes.late().sink(WriteJsonLines("late.jsonl"), name="too-late", workers=1)
