"""Those of the flows of `flow_cases.py` with bad lines in files, or with times that have zones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from flow_witness import CASES, Numbered, Witness, case, witness
from shunter import Flow
from shunter.flow.sources import CsvRows, JsonLines, TextLines

INPUTS = Path(__file__).parent / "inputs"


class Numbers(msgspec.Struct):
    n: int
    k: str


@dataclass
class Machine:
    machine: str
    celsius: float


@dataclass(frozen=True)
class Departure:
    train: str
    at: datetime
    stops: tuple[datetime, ...] = ()


class Arrival(msgspec.Struct, frozen=True):
    train: str
    at: datetime | None = None


def itself(event: Any) -> Any:
    return event


def first(event: Any) -> Any:
    return event[0]


def of_departure(departure: Departure) -> Arrival:
    return Arrival(departure.train, departure.at)


def key_and_number(event: Numbers) -> tuple[str, int]:
    return event.k, event.n


def length(text: str) -> tuple[int, str]:
    return len(text) % 3, text


# ---- bad lines are bad events


@case(60, on_error="skip")
def bad_lines_left_out(flow: Flow) -> None:
    lines = flow.source(JsonLines(INPUTS / "lines.jsonl", type=Numbers), name="lines")
    witness(lines.map(key_and_number).key_by(0).map(itself), key=first)


@case(60 + 5, on_error=Witness("bad_lines_in_letters-dead"))
def bad_lines_in_letters(flow: Flow) -> None:
    lines = flow.source(JsonLines(INPUTS / "lines.jsonl", type=Numbers), name="lines")
    witness(lines.balanced().map(itself))


@case(60 + 5, on_error=Witness("bad_lines_in_parts-dead"))
def bad_lines_in_parts(flow: Flow) -> None:
    source = JsonLines(INPUTS / "lines.jsonl", type=Numbers)
    witness(flow.source(source, name="lines", workers=3))


@case(40 + 3, on_error=Witness("bad_rows_in_letters-dead"))
def bad_rows_in_letters(flow: Flow) -> None:
    rows = flow.source(CsvRows(INPUTS / "rows.csv", type=Machine), name="rows")
    witness(rows.key_by("machine").map(itself))


@case(68)
def lines_of_text(flow: Flow) -> None:
    lines = flow.source(TextLines(INPUTS / "lines.jsonl"), name="lines")
    witness(lines.map(length).key_by(0).map(itself), key=first)


# ---- times keep their zones


INDIA = timezone(timedelta(hours=5, minutes=30))
LONDON = ZoneInfo("Europe/London")
NOONS = [datetime(2026, month, 1, 12, tzinfo=INDIA) for month in (1, 7)]
HERE = [*NOONS, datetime(2026, 7, 1, 12, 30, tzinfo=LONDON), datetime(2026, 1, 1, tzinfo=UTC)]


def moved(flow: Flow, events: list[Any], *, key: Any) -> None:
    """Send events over two edges."""
    everywhere = flow.source(events * 5).balanced().map(itself, workers=2)
    witness(everywhere, "-moved", workers=1)
    witness(everywhere.key_by(key).stateful(Numbered, any_order=True), workers=1)


@case(2 * 5 * 4)
def times_with_zones(flow: Flow) -> None:
    moved(flow, HERE, key=repr)


@case(2 * 5 * 6)
def times_with_zones_in_containers(flow: Flow) -> None:
    dicts = [{"at": at, "all": [at, {"at": at}]} for at in HERE]
    moved(flow, [*dicts, (1, NOONS[0]), [NOONS[1], 2]], key=repr)


@case(2 * 5 * 4)
def times_with_zones_in_types(flow: Flow) -> None:
    departures = [Departure(f"t{n}", at, (at, at)) for n, at in enumerate(HERE)]
    moved(flow, departures, key="train")


@case(2 * 5 * 5)
def times_with_zones_in_structs(flow: Flow) -> None:
    moved(
        flow, [*(Arrival(f"t{n}", at) for n, at in enumerate(HERE)), Arrival("late")], key="train"
    )


NAMES = tuple(name for name in CASES if name in globals())
