"""Adds up the orders of each day by product, and keeps what can't be read for a person to see.

    shunter flow run examples/orders/flow.py
    shunter flow run --on engines --engines 2 examples/orders/flow.py

Behind the orders of a day comes the instruction `day_ended`. It reaches every product, after all
orders of that day and before those of the next.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from shunter import Flow
from shunter.flow import Instruction
from shunter.flow.sinks import WriteCsv, WriteJsonLines

ORDERS = Path(__file__).with_name("orders.csv")


@dataclass
class Order:
    day: str
    product: str
    pieces: int
    price: float

    @property
    def value(self) -> float:
        return round(self.pieces * self.price, 2)


@dataclass
class DailyTotal:
    day: str
    product: str
    orders: int
    value: float


def rows_and_days() -> Iterator[dict[str, str] | Instruction]:
    with ORDERS.open(newline="") as file:
        for day, rows in groupby(csv.DictReader(file), itemgetter("day")):
            yield from rows
            yield Instruction("day_ended", day)


def order_of(row: dict[str, str]) -> Order:
    order = Order(row["day"], row["product"], int(row["pieces"]), float(row["price"]))
    if order.pieces < 1:
        raise ValueError(f"{order.pieces} pieces of {order.product}")
    return order


def is_large(order: Order) -> bool:
    return order.value >= 500


class Total:
    """What was ordered of one product today."""

    def __init__(self, product: str) -> None:
        self.product, self.orders, self.value = product, 0, 0.0

    def on_event(self, order: Order) -> None:
        self.orders += 1
        self.value += order.value

    def on_instruction(self, instruction: Any) -> DailyTotal | None:
        if instruction.name != "day_ended" or not self.orders:
            return None
        total = DailyTotal(instruction.data, self.product, self.orders, round(self.value, 2))
        self.orders, self.value = 0, 0.0
        return total


flow = Flow("orders", instructions=["day_ended"], on_error=WriteJsonLines("unreadable.jsonl"))
orders = flow.source(rows_and_days, name="rows").map(order_of)
orders.filter(is_large).sink(WriteJsonLines("large.jsonl"), name="large", workers=1)
totals = orders.key_by("product").stateful(Total, name="total")
totals.sink(WriteCsv("totals.csv"), name="totals", workers=1)
