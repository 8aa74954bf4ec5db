"""It is said beforehand what Spark does in its own columns, and why not the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shunter import Flow, Instruction
from shunter.flow.graph.aggregates import Aggregate, ApproxDistinct, Count, Max, Min, Sum
from shunter.flow.graph.instructions import FLUSH
from shunter.flow.graph.windows import Window
from shunter.flow.runners.spark.columns.column_types import items_of, shape_of
from shunter.flow.runners.spark.columns.explanation import explained
from shunter.flow.runners.spark.columns.native_stages import VALUES
from shunter.flow.sinks import Collect
from shunter.flow.sources import ParquetRows, Watermarked


@dataclass
class Plain:
    k: str
    v: int | None
    others: list[int]


class Struct(msgspec.Struct):
    k: str
    v: int | None


class Named(NamedTuple):
    k: str
    v: int


class Typed(TypedDict):
    k: str
    v: int


class Folded(Aggregate):
    def add(self, state: Any, value: Any) -> Any:
        return value


def plain(number: int) -> Plain:
    return Plain("a", number, [])


def plains(number: int) -> Iterator[Plain]:
    yield plain(number)


def unknown(number):  # type: ignore[no-untyped-def]
    return plain(number)


def parity(event: Plain) -> bool:
    return True


@pytest.mark.parametrize("kind", [Plain, Struct, Named, Typed])
def test_the_fields_of_a_type_are_columns(kind: type) -> None:
    assert shape_of(kind) == {"k": "string", "v": "long"}


@pytest.mark.parametrize("kind", [int, None, list[Plain], dict, Plain("a", 1, [])])
def test_what_has_no_fields_has_no_columns(kind: Any) -> None:
    assert shape_of(kind) is None


def test_the_items_of_what_a_function_returns_are_known() -> None:
    assert (
        items_of(list[Plain]) is items_of(tuple[Plain, ...]) is items_of(Iterator[Plain]) is Plain
    )
    assert items_of(Plain) is items_of(tuple[int, str]) is items_of(None) is None


def flow_of(outlet: Any, key: Any = "k", **aggregates: Any) -> Flow:
    told = outlet.key_by(key).aggregate(**(aggregates or {"n": Count()}), name="told")
    told.sink(Collect())
    flow: Flow = outlet.flow
    return flow


OWN = "told (aggregate) runs in Spark's own columns, which the functions before it fill"


def numbers(**options: Any) -> Any:
    return Flow("f", **options).source(range(9), name="numbers")


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (flow_of(numbers().map(plain), total=Sum("v")), OWN),
        (flow_of(numbers().map(plain).filter(parity), least=Min("v")), OWN),
        (flow_of(numbers().flat_map(plains), n=ApproxDistinct("v")), OWN),
        (flow_of(numbers().map(plain), parity), OWN),
        (flow_of(numbers().map(plain), n=Count(), window=Window(9, time="v")), OWN),
        (flow_of(numbers().map(plain).map(unknown)), "for the type of 'k' is not known"),
        (flow_of(numbers().map(plain), unknown), "for what unknown returns is not known"),
        (flow_of(numbers().map(plain), t=Sum("k")), "for 'k' is a string, and Sum in Spark's"),
        (flow_of(numbers().map(plain), t=Folded("v")), "is an aggregate of the user's own"),
        (flow_of(numbers(on_error=print).map(plain)), "can't be processed go to a sink"),
        (flow_of(Flow("f").source(list, name="s").map(plain)), "'s' may send instructions"),
        (
            flow_of(Flow("f").source([Instruction(FLUSH)], name="s").map(plain)),
            "'s' may send instructions",
        ),
        (
            flow_of(Flow("f").source(Watermarked([], time="v"), name="s").map(plain)),
            "'s' may send instructions",
        ),
    ],
)
def test_it_is_said_how_an_aggregate_runs(flow: Flow, said: str) -> None:
    [line] = explained(flow)
    assert said in line


def test_several_outputs_and_late_events_keep_an_aggregate_in_python() -> None:
    mapped = numbers().map(plain)
    mapped.sink(Collect())
    assert "'plain' has several outputs" in explained(flow_of(mapped))[0]

    late = numbers().map(plain).key_by("k").aggregate(n=Count(), window=Window(9, time="v"))
    late.sink(Collect())
    late.late().sink(Collect())
    assert "its late events are asked for" in explained(late.flow)[0]


def test_columns_of_files_need_no_python(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a"], "v": [1.5], "d": [b"x"]}), tmp_path / "a.parquet")

    def said(key: str, **aggregates: Any) -> str:
        rows = Flow("f").source(ParquetRows(tmp_path))
        [line] = explained(flow_of(rows, key, **aggregates))
        return line

    assert said("k", most=Max("v")) == "told (aggregate) runs in Spark's own columns"
    assert "'v' is a double, and a key" in said("v")
    assert "'d' is a binary, and Min" in said("k", least=Min("d"))
    pq.write_table(pa.table({"k": [1]}), tmp_path / "b.parquet")
    assert "the type of 'k' is not known" in said("k")


def test_every_aggregate_has_its_columns() -> None:
    assert set(VALUES) == set(Aggregate.__subclasses__()) - {Folded}
