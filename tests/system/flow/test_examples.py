"""The examples do what they say, and the same in one process, on three nodes and on two engines."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shunter.flow.loader import load
from shunter.flow.runners.engines.deployer import FlowRun
from shunter.flow.runners.local import run
from system.flow.engines import engines

EXAMPLES = Path(__file__).parents[3] / "examples"
KEYS = {
    "temperatures": {"changes": "machine"},
    "words": {"words": "word"},
    "orders": {"totals": "product", "large": "product", "unreadable": "stage"},
    "visits": {"minutes": "page", "late": "page"},
    "payments": {"alarms": "card", "takings": "terminal"},
}
"""The files that each example writes, and the field by which their rows have an order."""

Rows = dict[str, list[dict[str, Any]]]
Runner = Callable[[str], Path]


def flow_file(example: str) -> str:
    return str(EXAMPLES / example / "flow.py")


def written(example: str, folder: Path) -> Rows:
    """By the name of a file, what it and its parts have."""
    return {
        name: [row for path in sorted(folder.glob(f"{name}[.-]*")) for row in rows_in(path)]
        for name in KEYS[example]
    }


def rows_in(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file))


def by_key(example: str, rows: Rows) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found = defaultdict(list)
    for name, key in KEYS[example].items():
        for row in rows[name]:
            found[name, row[key]].append(row)
    return dict(found)


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.chdir(tmp_path)

    def run_it(example: str) -> Path:
        run(load(flow_file(example)))
        return tmp_path

    return run_it


@pytest.fixture
def on_three_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    folder = tmp_path / "three"
    folder.mkdir()

    def run_it(example: str) -> Path:
        monkeypatch.chdir(folder)
        run(load(flow_file(example)), nodes=3)
        return folder

    return run_it


@pytest.fixture(scope="module")
def two_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    folder = tmp_path_factory.mktemp("engines")
    with chdir(folder), engines(folder, 2) as started:
        yield folder, [each.endpoint for each in started]


@pytest.fixture
def on_engines(two_engines: tuple[Path, list[str]]) -> Runner:
    folder, endpoints = two_engines

    def run_it(example: str) -> Path:
        FlowRun(load(flow_file(example)), flow_file(example), endpoints).run()
        return folder

    return run_it


@pytest.mark.parametrize("runner", ["on_three_nodes", "on_engines"])
@pytest.mark.parametrize("example", KEYS)
def test_an_example_writes_the_same_everywhere(
    example: str, runner: str, in_process: Runner, request: pytest.FixtureRequest
) -> None:
    expected = by_key(example, written(example, in_process(example)))
    found = by_key(example, written(example, request.getfixturevalue(runner)(example)))

    assert expected
    assert found == expected


def test_changes_of_temperature_are_all_that_is_reported(in_process: Runner) -> None:
    rows = written("temperatures", in_process("temperatures"))["changes"]

    assert {row["now"] for row in rows} == {"ok", "warm", "hot"}
    assert len(rows) < 30
    states: dict[str, str] = defaultdict(lambda: "ok")
    for row in rows:
        assert row["before"] == states[row["machine"]] != row["now"]
        states[row["machine"]] = row["now"]


def test_the_readings_are_those_that_the_script_makes() -> None:
    script = module_at(EXAMPLES / "temperatures" / "make_readings.py")
    lines = script.READINGS.read_text().splitlines()

    assert [json.loads(line) for line in lines] == list(script.readings())
    assert script.READINGS.stat().st_size < 200_000


def test_words_are_counted_as_by_a_counter(in_process: Runner) -> None:
    rows = written("words", in_process("words"))["words"]

    text = " ".join(path.read_text() for path in (EXAMPLES.parent / "docs").glob("*.md"))
    counter = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    assert len(counter) > 1000
    assert {row["word"]: int(row["times"]) for row in rows} == counter
    assert len(rows) == len(counter)


def test_visits_are_counted_by_the_minute_unless_they_come_too_late(in_process: Runner) -> None:
    rows = written("visits", in_process("visits"))

    script = module_at(EXAMPLES / "visits" / "make_visits.py")
    visits = [visit for visit in script.visits() if visit["visitor"] != "robot"]
    counted = sum(row["visits"] for row in rows["minutes"])
    assert 0 < len(rows["late"]) < 20
    assert counted + len(rows["late"]) == len(visits)
    assert all(row["end"] - row["start"] == 60 for row in rows["minutes"])
    assert len({(row["page"], row["start"]) for row in rows["minutes"]}) == len(rows["minutes"])


def test_payments_that_were_sent_twice_count_once(in_process: Runner) -> None:
    rows = written("payments", in_process("payments"))

    script = module_at(EXAMPLES / "payments" / "make_payments.py")
    sent = list(script.payments())
    once = set(sent)
    assert len(once) < len(sent)
    assert sum(int(row["payments"]) for row in rows["takings"]) == len(once)
    cents = sum(round(100 * amount) for *_, amount in once)
    assert sum(int(row["cents"]) for row in rows["takings"]) == cents
    assert any(alarm["card"] == "c07" for alarm in rows["alarms"])


@pytest.mark.parametrize(
    ("example", "file", "script"),
    [
        ("visits", "visits.jsonl", "make_visits"),
        ("payments", "payments.csv", "make_payments"),
    ],
)
def test_data_is_what_its_script_makes(example: str, file: str, script: str) -> None:
    made = module_at(EXAMPLES / example / f"{script}.py")
    kept = rows_in(EXAMPLES / example / file)

    fresh = getattr(made, example)()
    if file.endswith(".csv"):
        fresh = (dict(zip(made.COLUMNS, map(str, row), strict=True)) for row in fresh)
    assert kept == list(fresh)


def test_each_day_s_orders_are_added_up_and_those_that_can_not_be_read_are_kept(
    in_process: Runner,
) -> None:
    rows = written("orders", in_process("orders"))

    read = rows_in(EXAMPLES / "orders" / "orders.csv")
    unreadable = [letter["event"] for letter in rows["unreadable"]]
    orders = Counter((row["day"], row["product"]) for row in read if row not in unreadable)
    assert {(row["day"], row["product"]): int(row["orders"]) for row in rows["totals"]} == orders
    assert len(unreadable) == 3
    assert all("order_of" in letter["traceback"] for letter in rows["unreadable"])
    assert rows["large"]


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
