"""Writes payments.csv: an hour of card payments, of which some terminals send a few twice.

    python examples/payments/make_payments.py

They are always the same payments.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path

PAYMENTS = Path(__file__).with_name("payments.csv")
TERMINALS = ["airport", "bakery", "garage", "museum"]
COLUMNS = ["terminal", "number", "card", "second", "amount"]
COUNT = 1_200


def payments() -> Iterator[tuple[str, int, str, int, float]]:
    chance = random.Random(3)
    sent = dict.fromkeys(TERMINALS, 0)
    for second in range(0, 3 * COUNT, 3):
        terminal = chance.choice(TERMINALS)
        sent[terminal] += 1
        card = "c07" if chance.random() < 0.03 else f"c{chance.randrange(100):02d}"
        payment = (terminal, sent[terminal], card, second, round(chance.lognormvariate(3, 1), 2))
        yield payment
        if chance.random() < 0.05:
            yield payment


if __name__ == "__main__":
    with PAYMENTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(payments())
