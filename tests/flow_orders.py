"""Those of the flows of `flow_cases.py` in which a class sees the order of its key's events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from flow_witness import CASES, Numbers, Running, Total, Witness, case, witness
from shunter import Flow
from shunter.flow.graph.aggregates import Count
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.graph.windows import Window
from shunter.flow.sources import CsvRows, JsonLines, Watermarked

EXAMPLES = Path(__file__).parents[1] / "examples"
VISITS = EXAMPLES / "visits" / "visits.jsonl"

GAP = 20
"""Visits that are further apart belong to two sessions."""

BEFORE = set(CASES)


@dataclass
class Visit:
    page: str
    visitor: str
    at: float
    milliseconds: int


class Sessions:
    """Tells a session when the next one begins, and at the end."""

    def __init__(self, visitor: str) -> None:
        self.visitor = visitor
        self.times: list[float] = []

    def on_event(self, visit: Visit) -> tuple[str, list[float]] | None:
        if not self.times or visit.at - self.times[-1] <= GAP:
            self.times.append(visit.at)
            return None
        told, self.times = self.times, [visit.at]
        return self.visitor, told

    def on_instruction(self, instruction: Any) -> tuple[str, list[float]] | None:
        return (self.visitor, self.times) if instruction.name == "end of stream" else None


class Trail:
    """Tells, of each event, those that came before it: their order shows."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.seen: list[int] = []

    def on_event(self, event: Any) -> tuple[Any, list[int]]:
        self.seen = [*self.seen, number_of(event)][-5:]
        return self.key, self.seen


class Unchanged:
    def on_event(self, event: Any) -> Any:
        return event


def number_of(event: Any) -> int:
    return event["n"] if isinstance(event, dict) else event


def first(event: Any) -> Any:
    return event[0]


def itself(event: Any) -> Any:
    return event


def modulo_3(number: int) -> int:
    return number % 3


def backwards(number: int) -> int:
    return -number


def tens(number: int) -> int:
    return number // 10


def visited(visit: Visit) -> tuple[str, str, float]:
    return visit.page, visit.visitor, visit.at


def row(number: int, time: Any) -> dict[str, Any]:
    return {"key": number % 3, "n": number, "at": time}


def shuffled(count: int, *, late: int) -> list[dict[str, Any]]:
    """Rows whose times rise, but for every tenth that is late by so many seconds."""
    return [row(n, n - late if n % 10 == 9 else n) for n in range(count)]


def at_zone(number: int) -> datetime:
    """The same second in one zone or another."""
    hours = timedelta(hours=number % 5 - 2, minutes=30 * (number % 2))
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=number * 7 % 100)
    return moment.astimezone(timezone(hours))


# ---- order that nobody asks for


@case(1000)
def a_file_in_its_order(flow: Flow) -> None:
    visits = flow.source(JsonLines(VISITS, type=Visit), name="visits").map(visited)
    witness(visits.key_by(0).map(itself), key=first)


@case(60)
def rows_in_their_order(flow: Flow) -> None:
    rows = flow.source(CsvRows(EXAMPLES / "orders" / "orders.csv"), name="rows")
    witness(rows.key_by("product").map(itself), key=lambda row: row["product"])


@case(1000)
def the_same_key_by_and_by(flow: Flow) -> None:
    rows = flow.source([row(n, 0) for n in range(1000)])
    kept = rows.key_by("key").map(itself).key_by("key").filter(itself)
    witness(kept.key_by("key").stateful(Trail), key=first)


# ---- by time


@case(807)
def sessions_of_several_readers(flow: Flow) -> None:
    visits = flow.source(JsonLines(VISITS, type=Visit), name="visits", workers=4)
    witness(visits.key_by("visitor", order_by="at").stateful(Sessions), key=first)


@case(3000)
def events_of_several_readers_by_a_function(flow: Flow) -> None:
    numbers = flow.source(Numbers(3000), workers=3)
    witness(numbers.key_by(modulo_3, order_by=backwards).stateful(Trail), key=first)


@case(500)
def equal_times(flow: Flow) -> None:
    numbers = flow.source(range(500)).balanced().map(itself, workers=3)
    witness(numbers.key_by(modulo_3, order_by=tens).stateful(Trail), key=first)


@case(400)
def merged_inputs_by_time(flow: Flow) -> None:
    low = flow.source([row(n, n * 37 % 200) for n in range(200)], name="low")
    high = flow.source([{"of": n % 3, "n": n, "time": n} for n in range(200)], name="high")
    both = flow.merge(low.key_by("key", order_by="at"), high.key_by("of", order_by="time"))
    witness(both.stateful(Trail), key=first)


@case(300)
def times_with_zones_in_order(flow: Flow) -> None:
    rows = flow.source([row(n, at_zone(n)) for n in range(300)]).balanced().map(itself, workers=2)
    witness(rows.key_by("key", order_by="at").stateful(Trail), key=first)


@case(300)
def another_key_by_time(flow: Flow) -> None:
    told = flow.source(range(300)).key_by(modulo_3).stateful(Running)
    times = told.map(lambda each: {"key": each[1] % 4, "n": each[2], "at": each[2]})
    witness(times.key_by("key", order_by="at").stateful(Trail), key=first)


@case(100)
def repeated_events_of_several_readers(flow: Flow) -> None:
    numbers = flow.source(Numbers(300), workers=3).map(lambda n: {"sender": n % 4, "n": n % 100})
    once = numbers.distinct(sender="sender", sequence="n", order_by="n")
    witness(once, key=lambda event: event["sender"])


@case(98, on_error="skip")
def events_without_a_time(flow: Flow) -> None:
    times = [*range(98), None, float("nan")]
    rows = flow.source([row(n, time) for n, time in enumerate(times)]).balanced().map(itself)
    witness(rows.key_by("key", order_by="at").stateful(Trail), key=first)


@case(3 * 3, instructions=["day_ended"])
def an_instruction_behind_what_is_held(flow: Flow) -> None:
    events = [*range(300), Instruction("day_ended", 1), Instruction(FLUSH), *range(200)]
    numbers = flow.source(events).balanced().map(itself, workers=3)
    witness(numbers.key_by(modulo_3, order_by=backwards).stateful(Total), key=first)


# ---- by time, as far as watermarks say


@case(1000)
def events_let_go_in_time(flow: Flow) -> None:
    rows = Watermarked(shuffled(1000, late=20), time="at", lateness=20, every=50)
    mapped = flow.source(rows).balanced().map(itself, workers=2)
    witness(mapped.key_by("key", order_by="at").stateful(Trail), key=first)


@case(1000)
def readers_that_say_how_far_they_are(flow: Flow) -> None:
    numbers = Watermarked(Numbers(1000), time=itself, every=30)
    source = flow.source(numbers, workers=3)
    witness(source.key_by(modulo_3, order_by=itself).stateful(Trail), key=first)


@case(925 + 75)
def events_too_late_for_their_turn(flow: Flow) -> None:
    rows = Watermarked(shuffled(1000, late=60), time="at", every=25)
    mapped = flow.source(rows).balanced().map(itself)
    told = mapped.key_by("key", order_by="at", lateness=40).stateful(Trail, name="told")
    witness(told, "-told", key=first)
    witness(told.late().map(itself), "-late", workers=1)


@case(1000, on_error=Witness("late_events_in_letters-dead"))
def late_events_in_letters(flow: Flow) -> None:
    rows = Watermarked(shuffled(1000, late=60), time="at", every=25)
    told = flow.source(rows).key_by("key", order_by="at").stateful(Trail)
    witness(told, key=first)


@case(3 * 11)
def windows_behind_what_is_held(flow: Flow) -> None:
    rows = Watermarked(shuffled(1000, late=60), time="at", every=25)
    held = flow.source(rows).key_by("key", order_by="at", lateness=60).stateful(Unchanged)
    told = held.key_by("key").aggregate(count=Count(), window=Window(100, time="at"))
    witness(told, key=lambda result: result["key"])


@case(3 * 11)
def windows_behind_two_ways_of_which_one_holds(flow: Flow) -> None:
    rows = flow.source(Watermarked(shuffled(1000, late=60), time="at", lateness=60, every=25))
    held = rows.key_by("key", order_by="at", lateness=75).stateful(Unchanged)
    both = flow.merge(rows.map(itself), held).key_by("key")
    witness(
        both.aggregate(count=Count(), window=Window(100, time="at")),
        key=lambda result: result["key"],
    )


NAMES = tuple(name for name in CASES if name not in BEFORE)
