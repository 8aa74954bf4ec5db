"""Small flows of every kind, which give the same output wherever they run.

A runner loads them as `flow_cases.py:NAME`, so engines do too. `CASES` says of each how many events
come out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

import flow_aggregates
import flow_inputs
import flow_orders
from flow_witness import CASES as CASES
from flow_witness import (
    Batch,
    Counted,
    Distinct,
    Echo,
    Numbered,
    Numbers,
    OwnTotal,
    Running,
    Total,
    Witness,
    case,
    witness,
)
from shunter import Flow
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.sources import CsvRows, JsonLines

EXAMPLES = Path(__file__).parents[1] / "examples"


def itself(event: Any) -> Any:
    return event


def first(event: Any) -> Any:
    return event[0]


def first_two(event: Any) -> Any:
    return event[:2]


def key_and_parity(row: tuple[Any, int, int]) -> Any:
    return row[0], row[1] % 2


def all_one(_: Any) -> str:
    return "all"


def doubled(number: int) -> int:
    return 2 * number


def is_odd(number: int) -> int:
    return number % 2


def modulo_3(number: int) -> int:
    return number % 3


def modulo_7(number: int) -> int:
    return number % 7


def repeated(number: int) -> list[int]:
    return [number] * (number % 4)


def inverse(number: int) -> float:
    return 12 / number


# ---- stages without state


@case(100)
def one_to_one(flow: Flow) -> None:
    witness(flow.source(range(100)).map(doubled), key=all_one)


@case(50)
def filtered(flow: Flow) -> None:
    witness(flow.source(range(100)).filter(is_odd), key=all_one)


@case(150)
def split(flow: Flow) -> None:
    witness(flow.source(range(100)).flat_map(repeated), key=all_one)


@case(73)
def in_a_row(flow: Flow) -> None:
    numbers = flow.source(range(100)).filter(is_odd).flat_map(repeated).map(doubled)
    witness(numbers.filter(lambda n: n < 150), key=all_one)


@case(0)
def nothing_at_all(flow: Flow) -> None:
    witness(flow.source([]).key_by(itself).stateful(Total))


@case(5000)
def balanced_over_four_workers(flow: Flow) -> None:
    witness(flow.source(range(5000)).balanced().map(doubled, workers=4), workers=1)


@case(5000)
def more_workers_and_then_fewer(flow: Flow) -> None:
    mapped = flow.source(Numbers(5000), workers=2).map(doubled, workers=5).map(itself, workers=3)
    witness(mapped, workers=1)


@case(200)
def to_all_of_two_workers(flow: Flow) -> None:
    witness(flow.source(range(100)).to_all().map(doubled, workers=2), workers=1)


@case(40)
def large_events(flow: Flow) -> None:
    bodies = flow.source(range(40)).map(lambda n: bytes([n]) * 50_000).balanced().map(itself)
    witness(bodies.key_by(first).map(lambda body: (body[0], len(body))), key=first)


# ---- states


@case(1000)
def a_running_sum_by_key(flow: Flow) -> None:
    witness(flow.source(range(1000)).key_by(modulo_7).stateful(Running), key=first)


@case(1000)
def fewer_workers_than_nodes(flow: Flow) -> None:
    sums = flow.source(range(1000)).key_by(modulo_7).stateful(Running, workers=2)
    witness(sums, key=first, workers=1)


@case(20_000)
def one_hot_key(flow: Flow) -> None:
    numbers = flow.source(range(20_000)).key_by(lambda n: 0 if n % 20 else n % 7)
    witness(numbers.stateful(Running), key=first)


@case(20_000)
def a_key_for_each_event(flow: Flow) -> None:
    numbers = flow.source(Numbers(20_000), workers=2).key_by(itself)
    witness(numbers.stateful(Running, any_order=True), key=first)


@case(60)
def equal_keys_of_different_types(flow: Flow) -> None:
    numbers = flow.source([1, 1.0, True, 0, False, 0.0] * 10)
    witness(numbers.key_by(itself).stateful(Running), key=first)


@case(600)
def by_another_key_again(flow: Flow) -> None:
    sums = flow.source(range(600)).key_by(modulo_3).stateful(Running)
    witness(sums.key_by(key_and_parity).map(itself), key=key_and_parity)


@case(200)
def three_keys_in_one(flow: Flow) -> None:
    rows = flow.source([(n % 3, str(n % 5), n % 2 == 0, n) for n in range(200)])
    witness(rows.key_by(lambda row: row[:3]).map(itself), key=lambda row: row[:3])


@case(500)
def a_snapshot_of_its_own(flow: Flow) -> None:
    numbers = flow.source([n % 500 for n in range(3000)])
    witness(numbers.key_by(modulo_7).stateful(Distinct), key=modulo_7)


@case(306 + 7)
def a_generator_for_each_key(flow: Flow) -> None:
    witness(flow.source(range(300)).key_by(modulo_7).stateful(Echo), workers=1)


@case(21)
def one_worker_with_state(flow: Flow) -> None:
    witness(flow.source(range(101)).stateful(Batch, workers=1), key=all_one)


# ---- several inputs, several outputs


@case(100 + 50 + 100)
def several_outputs(flow: Flow) -> None:
    numbers = flow.source(range(100))
    witness(numbers.balanced().map(doubled), "-doubled")
    witness(numbers.filter(is_odd), "-odd", key=all_one)
    witness(numbers.key_by(modulo_3).stateful(Running), "-sums", key=first)


@case(300)
def several_sources(flow: Flow) -> None:
    low = flow.source(range(100), name="low").map(lambda n: ("low", n))
    high = flow.source(range(200), name="high").map(lambda n: ("high", n))
    witness(flow.merge(low, high).key_by(first).map(itself), key=first)


@case(200)
def apart_and_together_again(flow: Flow) -> None:
    numbers = flow.source(range(100))
    left = numbers.balanced().map(lambda n: ("left", n % 3, n))
    right = numbers.key_by(modulo_7).map(lambda n: ("right", n % 3, n), name="right")
    joined = left.key_by(first_two).map(itself, name="joined")
    flow.connect(right.key_by(first_two), joined)
    witness(joined, workers=1)


# ---- instructions


@case(7 * 3, instructions=["day_ended"])
def an_instruction_in_the_middle(flow: Flow) -> None:
    events = [*range(500), Instruction("day_ended", 1), *range(700), Instruction("day_ended", 2)]
    witness(flow.source(events).key_by(modulo_7).stateful(Total), key=first)


@case(7 * 2, instructions=["day_ended"])
def an_instruction_behind_balanced_workers(flow: Flow) -> None:
    events = [*range(5000), Instruction("day_ended", 1), *range(5000)]
    mapped = flow.source(events).balanced().map(doubled, workers=3)
    witness(mapped.key_by(modulo_7).stateful(Total, any_order=True), key=first)


@case(3 * 3, instructions=["day_ended"])
def an_instruction_by_two_ways(flow: Flow) -> None:
    numbers = flow.source(
        [*range(300), Instruction("day_ended", 1), Instruction(FLUSH), *range(300)]
    )
    ways = numbers.balanced().map(doubled, workers=2), numbers.key_by(modulo_7).map(itself)
    witness(flow.merge(*ways).key_by(modulo_3).stateful(Total, any_order=True), key=first)


@case(2, instructions=["half_time"])
def instructions_of_two_sources(flow: Flow) -> None:
    low = flow.source([*[0] * 9, Instruction("half_time", 0), *[0] * 5], name="low")
    high = flow.source([*[1] * 4, Instruction("half_time", 1), *[1] * 7], name="high")
    witness(flow.merge(low, high).key_by(itself).stateful(OwnTotal, any_order=True), key=first)


@case(4 + 3)
def a_flush_of_what_waits(flow: Flow) -> None:
    numbers = flow.source([*range(17), Instruction(FLUSH), *range(15)])
    witness(numbers.stateful(Batch, workers=1), key=all_one)


# ---- bad events


@case(90, on_error="skip")
def bad_events_left_out(flow: Flow) -> None:
    numbers = flow.source([n % 10 for n in range(100)]).balanced().map(inverse)
    witness(numbers.key_by(itself).stateful(Numbered, any_order=True), key=repr)


@case(90 + 10, on_error=Witness("bad_events_in_letters-dead"))
def bad_events_in_letters(flow: Flow) -> None:
    witness(flow.source([n % 10 for n in range(100)]).balanced().map(inverse))


@case(130, on_error="skip")
def bad_events_in_every_kind_of_stage(flow: Flow) -> None:
    numbers = flow.source([n % 10 for n in range(100)]).filter(inverse)
    pairs = numbers.flat_map(lambda n: [n, 12 // (n - 1)])
    witness(pairs.key_by(lambda n: 12 // (n - 2)).stateful(Running), key=first)


@case(10, on_error="skip")
def events_without_a_key(flow: Flow) -> None:
    events = [{"k": n} if n % 2 else {"q": n} for n in range(20)]
    witness(flow.source(events).key_by("k").map(itself), key=lambda event: event["k"])


# ---- events of every type


@dataclass
class Point:
    x: int
    y: int


@dataclass(frozen=True)
class Segment:
    name: str
    ends: tuple[Point, Point]


class Reading(msgspec.Struct):
    machine: str
    celsius: float | None = None


class Pair(NamedTuple):
    left: str
    right: int


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


PLAIN = [None, True, False, 0, -1, 2**63, -(2**63), 0.5, 1e300, "", "Grüße 🚂", b"", b"\x00\xff"]
TIMES = [date(2026, 3, 1), datetime(2026, 3, 1, 12, tzinfo=UTC), timedelta(seconds=1.5)]
OTHERS = [Decimal("1.50"), UUID(int=7), {1, 2}, frozenset({3}), bytearray(b"ab")]
ENDS = Point(1, 2), Point(3, 4)
OWN = [Point(1, 2), Segment("a", ENDS), Reading("saw", 1.0), Pair("a", 1), Colour.BLUE]
MIXED = [*PLAIN, {"k": 1}, [1], (1, 2), *TIMES, *OTHERS, *OWN]


def twenty_each(flow: Flow, events: list[Any], *, key: Any = repr) -> None:
    """Send events over two edges, and number them by key."""
    moved = flow.source(events * 20).balanced().map(itself, workers=2)
    witness(moved, "-moved", workers=1)
    witness(moved.key_by(key).stateful(Numbered, any_order=True), workers=1)


@case(2 * 20 * len(PLAIN))
def plain_values(flow: Flow) -> None:
    twenty_each(flow, PLAIN)


@case(2 * 20 * 3)
def dicts(flow: Flow) -> None:
    twenty_each(flow, [{"k": 1, "v": [1, {}]}, {"k": "a", "v": None}, {"k": None, 7: 0.5}], key="k")


@case(2 * 20 * 3)
def lists(flow: Flow) -> None:
    twenty_each(flow, [[1, 2], ["a", [None]], [0.5]], key=0)


@case(2 * 20 * 3)
def tuples(flow: Flow) -> None:
    twenty_each(flow, [(1, 2), ("a",), (0.5, None, [1])], key=0)


@case(2 * 20 * 2)
def dataclasses(flow: Flow) -> None:
    twenty_each(flow, [Point(1, 2), Point(-1, 0)], key="x")


@case(2 * 20 * 2)
def structs(flow: Flow) -> None:
    twenty_each(flow, [Reading("lathe", 20.5), Reading("mill")], key="machine")


@case(2 * 20 * 2)
def named_tuples(flow: Flow) -> None:
    twenty_each(flow, [Pair("a", 1), Pair("b", 2)], key="left")


@case(2 * 20 * 2)
def types_in_types(flow: Flow) -> None:
    twenty_each(flow, [Segment("a", ENDS), Segment("b", ENDS[::-1])], key="name")


@case(2 * 20 * 2)
def enums(flow: Flow) -> None:
    twenty_each(flow, [Colour.RED, Colour.BLUE], key=itself)


@case(2 * 20 * (len(TIMES) + len(OTHERS)))
def types_of_the_standard_library(flow: Flow) -> None:
    twenty_each(flow, [*TIMES, *OTHERS])


@case(2 * 20 * len(MIXED))
def everything_mixed(flow: Flow) -> None:
    twenty_each(flow, MIXED)


# ---- files


@case(1800 + 5)
def a_file_in_parts(flow: Flow) -> None:
    file = EXAMPLES / "temperatures" / "readings.jsonl"
    readings = flow.source(JsonLines(file, type=Reading), name="readings", workers=3)
    witness(readings, "-all")
    witness(readings.key_by("machine").stateful(Counted, any_order=True), key=first)


@case(60)
def rows_of_a_file(flow: Flow) -> None:
    rows = flow.source(CsvRows(EXAMPLES / "orders" / "orders.csv"), name="rows")
    witness(rows.balanced().map(itself))


# ---- aggregates and windows, and orders by time, which have files of their own

for others in (flow_aggregates, flow_orders):
    globals().update({name: getattr(others, name) for name in others.NAMES})

# ---- bad lines, and times with zones, likewise

globals().update({name: getattr(flow_inputs, name) for name in flow_inputs.NAMES})


# ---- a flow that does not come to its end

stopped = Flow("stopped")
witness(stopped.source([3, 2, 1, 0]).balanced().map(inverse))
