"""A flow that runs until it is stopped: ticks, some of which can't be read, counted by key."""

from __future__ import annotations

from typing import Any

from shunter import Flow
from shunter.flow.sources import Ticks


class Seen:
    def __init__(self, key: int) -> None:
        self.key, self.count = key, 0

    def on_event(self, reading: dict[str, Any]) -> dict[str, int]:
        self.count += 1
        return {"key": self.key, "count": self.count}


def parse(tick: dict[str, Any]) -> dict[str, Any]:
    if tick["tick"] % 10 == 0:
        raise ValueError("every tenth can't be read")
    return tick


def forget(event: Any) -> None:
    pass


flow = Flow("readings", on_error="skip")
ticks = flow.source(Ticks(0.005), name="ticks").map(parse)
ticks.key_by(lambda tick: tick["tick"] % 7).stateful(Seen, name="by_sensor").sink(
    forget, name="out"
)
ticks.filter(lambda tick: tick["tick"] % 100 == 1, name="sample").sink(forget, name="samples")
