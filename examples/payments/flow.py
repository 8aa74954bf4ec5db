"""Watches card payments: what a terminal sent twice counts once, and hurry is an alarm.

    shunter flow run examples/payments/flow.py
    shunter flow run --stream --checkpoints checkpoints/ examples/payments/flow.py

A terminal numbers its payments, and repeats one if it has heard no answer. A card with which three
payments are made within two minutes is suspicious. What each terminal has taken is added up
beside that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shunter import Flow
from shunter.flow import Count, Sum
from shunter.flow.sinks import WriteCsv, WriteJsonLines
from shunter.flow.sources import CsvRows

PAYMENTS = Path(__file__).with_name("payments.csv")
HURRY_SECONDS = 120
HURRY_PAYMENTS = 3


@dataclass
class Payment:
    terminal: str
    number: int
    card: str
    second: int
    amount: float


@dataclass
class Alarm:
    card: str
    second: int
    amounts: list[float]


@dataclass
class Hurry:
    """The last payments with one card."""

    last: list[tuple[int, float]] = field(default_factory=list)

    def on_event(self, payment: Payment) -> Alarm | None:
        since = payment.second - HURRY_SECONDS
        self.last = [each for each in self.last if each[0] > since]
        self.last.append((payment.second, payment.amount))
        if len(self.last) < HURRY_PAYMENTS:
            return None
        return Alarm(payment.card, payment.second, [amount for _, amount in self.last])

    def snapshot(self) -> Any:
        return self.last

    def restore(self, saved: Any) -> None:
        self.last = [(second, amount) for second, amount in saved]


def in_cents(payment: Payment) -> int:
    return round(100 * payment.amount)


flow = Flow("payments")
rows = flow.source(CsvRows(PAYMENTS, type=Payment), name="payments")
# One worker, so that the payments of a card stay in order whatever terminal they come from.
payments = rows.distinct(sender="terminal", sequence="number", name="once", workers=1)
alarms = payments.key_by("card").stateful(Hurry, name="hurry")
alarms.sink(WriteJsonLines("alarms.jsonl"), name="alarms", workers=1)
takings = payments.key_by("terminal").aggregate(
    payments=Count(), cents=Sum(in_cents), name="takings"
)
takings.sink(WriteCsv("takings.csv"), name="by-terminal", workers=1)
