"""The jobs of a small shop: what takes long, or may fail, and has no place in a request."""

from __future__ import annotations

from dataclasses import dataclass

from shunter import App, Fail, Limit, Retry

app = App()

PRICES = {"tea": 2.50, "mug": 8.00}


@dataclass
class Invoice:
    """What the customer pays, in euros."""

    order: str
    total: float


@app.job(retry=Retry(limit=3, delay=1), timeout=30, limit=Limit(4, by="customer"))
def make_invoice(order: str, items: dict[str, int]) -> Invoice:
    """Work out what an order costs; unknown items fail at once, however many retries are left."""
    unknown = sorted(items.keys() - PRICES)
    if unknown:
        raise Fail(f"we have no {', '.join(unknown)}")
    total = sum(PRICES[item] * count for item, count in items.items())
    return Invoice(order, round(total, 2))
