"""Those of the flows of `flow_cases.py` that aggregate, with windows or without."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from flow_witness import CASES, Total, case, witness
from shunter import Flow
from shunter.flow.graph.aggregates import ApproxDistinct, Count, Max, Mean, Min, Sum
from shunter.flow.graph.instructions import WATERMARK, Instruction
from shunter.flow.graph.windows import Window
from shunter.flow.sources import Watermarked


def itself(event: Any) -> Any:
    return event


def modulo_3(number: int) -> int:
    return number % 3


@dataclass
class Sale:
    shop: str
    price: float
    items: int
    at: int


def sale(number: int) -> Sale:
    return Sale(f"shop {number % 7}", number / 4, number % 50, number)


def sale_with_gaps(number: int) -> dict[str, Any]:
    price = None if number % 3 else number / 4
    return {"shop": number % 7, "price": price, "at": at_time(number)}


def sales_of(number: int) -> list[Sale]:
    return [sale(number)] * (number % 3)


def shop_number(sold: Sale) -> int:
    return int(sold.shop[5:])


def pence(sold: Sale) -> int:
    return round(sold.price * 100)


def at_time(number: int) -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=0.5 * number)


def of_shop(result: dict[str, Any]) -> Any:
    return result["shop"]


def of_key(result: dict[str, Any]) -> Any:
    return result["key"]


def shuffled_sales(count: int, *, late: int) -> list[Sale]:
    """Sales whose times rise, but for every tenth that is late by so many seconds."""
    return [sale(n - late if n % 10 == 9 else n) for n in range(count)]


@case(7)
def every_aggregate_by_a_field(flow: Flow) -> None:
    sales = flow.source(range(1000)).map(sale).filter(lambda sold: sold.items != 3)
    told = sales.key_by("shop").aggregate(
        count=Count(),
        total=Sum("price"),
        items=Sum("items"),
        least=Min("price"),
        most=Max("items"),
        mean=Mean("items"),
        kinds=ApproxDistinct("items"),
    )
    witness(told, key=of_shop)


@case(7)
def aggregates_of_functions(flow: Flow) -> None:
    sales = flow.source(range(500)).balanced().map(sale)
    told = sales.key_by(shop_number).aggregate(pence=Sum(pence), most=Max(lambda sold: -sold.items))
    witness(told, key=of_key)


@case(7)
def aggregates_of_values_with_gaps(flow: Flow) -> None:
    sales = flow.source(range(300)).map(sale_with_gaps)
    told = sales.key_by("shop").aggregate(
        count=Count(), total=Sum("price"), mean=Mean("price"), first=Min("at"), last=Max("at")
    )
    witness(told, key=of_shop)


@case(0)
def aggregates_of_nothing(flow: Flow) -> None:
    witness(flow.source([]).map(sale).key_by("shop").aggregate(count=Count()))


@case(6, on_error="skip")
def aggregates_and_bad_events(flow: Flow) -> None:
    sales = flow.source(range(100)).map(sale)
    told = sales.key_by(shop_number).aggregate(rate=Sum(lambda sold: 60 // shop_number(sold)))
    witness(told, key=of_key)


@case(7)
def an_aggregate_behind_flat_map(flow: Flow) -> None:
    sales = flow.source(range(500)).flat_map(sales_of)
    witness(sales.key_by("shop").aggregate(count=Count(), total=Sum("price")), key=of_shop)


@case(7 + 3)
def an_aggregate_into_another_state(flow: Flow) -> None:
    told = flow.source(range(500)).map(sale).key_by("shop").aggregate(items=Sum("items"))
    witness(told, "-shops", key=of_shop)
    sums = told.map(lambda result: result["items"]).key_by(modulo_3).stateful(Total, any_order=True)
    witness(sums, workers=1)


@case(7 * 10)
def tumbling_windows(flow: Flow) -> None:
    told = (
        flow.source(range(1000))
        .map(sale)
        .key_by("shop")
        .aggregate(count=Count(), total=Sum("price"), window=Window(100, time="at"))
    )
    witness(told, workers=1)


@case(3 * 11)
def sliding_windows_of_datetimes(flow: Flow) -> None:
    told = (
        flow.source(range(200))
        .key_by(modulo_3)
        .aggregate(count=Count(), window=Window(timedelta(seconds=20), every=10, time=at_time))
    )
    witness(told, workers=1)


@case(7 * 10 + 2)
def windows_that_close_in_time(flow: Flow) -> None:
    sales = Watermarked(shuffled_sales(1000, late=20), time="at", lateness=30, every=50)
    told = flow.source(sales).key_by("shop").aggregate(count=Count(), window=Window(100, time="at"))
    witness(told, key=of_shop)


@case(72 + 50)
def late_events(flow: Flow) -> None:
    sales = Watermarked(shuffled_sales(1000, late=70), time="at", every=25)
    told = (
        flow.source(sales)
        .balanced()
        .map(itself)
        .key_by("shop")
        .aggregate(count=Count(), window=Window(100, time="at"), name="told")
    )
    witness(told, "-told", key=of_shop)
    witness(told.late().map(itself), "-late", workers=1)


@case(151)
def late_events_that_nobody_takes(flow: Flow) -> None:
    sales = Watermarked(shuffled_sales(1000, late=170), time="at", every=25)
    told = flow.source(sales).key_by("shop").aggregate(
        total=Sum("items"), window=Window(100, every=50, time="at")
    )  # fmt: skip
    witness(told, key=of_shop)


@case(3 + 3 + 5)
def a_watermark_in_the_middle(flow: Flow) -> None:
    times = [*range(10), Instruction(WATERMARK, 10), *range(5, 20)]
    told = flow.source(times).key_by(modulo_3).aggregate(
        count=Count(), window=Window(10, time=itself), name="told"
    )  # fmt: skip
    witness(told, "-told", key=of_key)
    witness(told.late(), "-late", workers=1)


@case(200)
def events_that_come_again(flow: Flow) -> None:
    numbers = [{"machine": n % 4, "n": n} for n in range(200)]
    again = [*numbers[:120], *numbers[40:], *numbers[:10]]
    witness(flow.source(again).distinct(sender="machine", sequence="n"), key=lambda e: e["machine"])


NAMES = tuple(CASES)
