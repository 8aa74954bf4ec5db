"""The flow of the night: squares of the events' numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shunter import Flow
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import JsonLines

HERE = Path(__file__).parent


def square(event: dict[str, Any]) -> dict[str, Any]:
    return {"number": event["number"], "square": event["number"] ** 2}


flow = Flow("squares")
events = flow.source(JsonLines(str(HERE / "events.jsonl")))
events.map(square).sink(WriteJsonLines(str(HERE / "squares.jsonl")), name="squares", workers=1)
