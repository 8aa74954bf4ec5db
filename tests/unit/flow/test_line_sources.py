"""JSON lines and CSV files: read in any batches, from any position, in any number of parts."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from shunter.errors import FlowError
from shunter.flow.sources import BadInput, CsvRows, JsonLines, Source
from unit.flow.io_steps import all_of, carried, limits, read_with_a_stop

values = st.recursive(
    st.none() | st.integers(-(2**53), 2**53) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
files_of_values = st.lists(st.lists(values, max_size=12), min_size=1, max_size=4)
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=8)
files_of_cells = st.lists(
    st.lists(st.tuples(cells.filter(bool), cells), max_size=10), min_size=1, max_size=3
)


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


def write_json(folder: Path, files: list[list[Any]], *, ending: str = "\n") -> None:
    for number, events in enumerate(files):
        lines = [json.dumps(event) + "\n" for event in events]
        (folder / f"{number:02}.jsonl").write_text("".join(lines).removesuffix("\n") + ending)


def write_csv(folder: Path, files: list[list[tuple[str, str]]]) -> None:
    for number, rows in enumerate(files):
        with (folder / f"{number:02}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("a", "b"), *rows])


@given(
    files=files_of_values,
    sizes=limits,
    batches=st.integers(0, 12),
    ending=st.sampled_from(["\n", "", "\n\n"]),
)
def test_json_lines_go_on_from_any_position(
    files: list[list[Any]], sizes: list[int], batches: int, ending: str
) -> None:
    expected = [event for events in files for event in events]
    with TemporaryDirectory() as folder:
        write_json(Path(folder), files, ending=ending)
        assert all_of(JsonLines(folder), sizes) == expected
        assert read_with_a_stop(lambda: JsonLines(folder), sizes, batches) == expected


@given(files=files_of_values, sizes=limits, count=st.integers(1, 6), batches=st.integers(0, 5))
def test_parts_of_json_lines_have_all_lines_once(
    files: list[list[Any]], sizes: list[int], count: int, batches: int
) -> None:
    numbered = [
        [[number, place, value] for place, value in enumerate(events)]
        for number, events in enumerate(files)
    ]
    with TemporaryDirectory() as folder:
        write_json(Path(folder), numbered)
        found = []
        for index in range(count):

            def part(index: int = index) -> Source:
                return JsonLines(folder).part(index, count)

            found += read_with_a_stop(part, sizes, batches)
    assert sorted(found, key=lambda event: event[:2]) == [e for events in numbered for e in events]


@pytest.mark.parametrize("count", range(2, 17))
def test_a_line_that_begins_where_a_part_does_is_its_own(place: Path, count: int) -> None:
    (place / "in.jsonl").write_text("".join(f"{number:7}\n" for number in range(16)))
    parts = [all_of(JsonLines(place).part(index, count)) for index in range(count)]

    assert [event for part in parts for event in part] == all_of(JsonLines(place))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(files=files_of_cells, sizes=limits, batches=st.integers(0, 12))
def test_csv_rows_go_on_from_any_position(
    files: list[list[tuple[str, str]]], sizes: list[int], batches: int
) -> None:
    expected = [{"a": a, "b": b} for rows in files for a, b in rows]
    with TemporaryDirectory() as folder:
        write_csv(Path(folder), files)
        assert all_of(CsvRows(folder), sizes) == expected
        assert read_with_a_stop(lambda: CsvRows(folder), sizes, batches) == expected


@given(files=files_of_cells, count=st.integers(1, 4))
def test_parts_of_csv_have_all_rows_once(files: list[list[tuple[str, str]]], count: int) -> None:
    with TemporaryDirectory() as folder:
        write_csv(Path(folder), files)
        found = [
            row for index in range(count) for row in all_of(CsvRows(folder).part(index, count))
        ]
    expected = [{"a": a, "b": b} for rows in files for a, b in rows]
    assert sorted(map(str, found)) == sorted(map(str, expected))


# ---- where it reads


def test_a_path_a_pattern_a_folder_and_a_list_are_read_in_order(place: Path) -> None:
    write_json(place, [[1], [2], [3]])
    first, pattern = place / "00.jsonl", str(place / "0[12]*")

    assert all_of(JsonLines(first)) == [1]
    assert all_of(JsonLines(pattern)) == [2, 3]
    assert all_of(JsonLines(place)) == [1, 2, 3]
    assert all_of(JsonLines([pattern, first])) == [2, 3, 1]


def test_a_name_with_signs_of_a_pattern_is_a_name_where_there_is_such_a_file(place: Path) -> None:
    (place / "[a].jsonl").write_text("1\n")

    assert all_of(JsonLines(place / "[a].jsonl")) == [1]


@pytest.mark.parametrize("source", [JsonLines, CsvRows])
def test_a_file_that_is_not_there_is_named(place: Path, source: Any) -> None:
    with pytest.raises(FlowError, match=r"nothing\*: there is no such file in .*; give the path"):
        source(place / "nothing*").open(None)


def test_an_empty_folder_has_no_events(place: Path) -> None:
    assert all_of(JsonLines(place)) == all_of(CsvRows(place)) == []


def test_files_that_came_later_are_read_and_files_that_went_are_missed(place: Path) -> None:
    write_json(place, [[1, 2], [3]])
    source = JsonLines(place)
    source.open(None)
    assert [source.read(5), source.read(5)] == [[1, 2, 3], None]
    position = carried(source.position())
    source.close()

    write_json(place, [[1, 2], [3], [4]])
    source.open(position)
    assert source.read(5) == [4]
    source.close()

    (place / "00.jsonl").unlink()
    with pytest.raises(FlowError, match="not those that the last run has read"):
        source.open(position)


# ---- what a line becomes


class Reading(Struct):
    machine: str
    degrees: float


@dataclass
class Person:
    name: str
    age: int = 0


def test_lines_become_structs_and_rows_dataclasses(place: Path) -> None:
    (place / "in.jsonl").write_text('{"machine": "m1", "degrees": 20}\n')
    (place / "in.csv").write_text("name,age\nAda,36\n")

    assert all_of(JsonLines(place, type=Reading)) == [Reading("m1", 20.0)]
    assert all_of(CsvRows(place, type=Person)) == [Person("Ada", 36)]
    assert all_of(CsvRows(place, converters={"age": int})) == [{"name": "Ada", "age": 36}]


def test_a_sheet_saved_elsewhere_is_read(place: Path) -> None:
    (place / "in.csv").write_bytes('\ufeffname;age\r\n"A;\r\nB";1\r\n\r\n'.encode())

    assert all_of(CsvRows(place, delimiter=";")) == [{"name": "A;\r\nB", "age": "1"}]


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ("{oops}", "malformed"),
        ('{"machine": 1}', "Expected `str`"),
        ('{"machine": "m",', "truncated"),
        ('{"machine": "x", "degrees": 1} {"machine": "y", "degrees": 2}', "trailing"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_bad_line_is_bad_input_among_the_events(
    place: Path, bad: str, fault: str, size: int
) -> None:
    good = '{"machine": "m", "degrees": 1}\n'
    (place / "in.jsonl").write_text(f"{good}\n{good}{bad}\n{good}")
    found = all_of(JsonLines(place, type=Reading), [size])

    assert [type(event) for event in found] == [Reading, Reading, BadInput, Reading]
    assert found[2].where.endswith("in.jsonl:4")
    assert fault in found[2].error
    assert found[2].raw == bad


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (b"1", "found 1 fields; expected 2: name, age"),
        (b"a,b,c", "found 3 fields"),
        (b"x,many", "invalid literal for int"),
        (b'"a"b,1', "expected after"),
        (b"\xff,1", "can't decode"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_bad_row_is_bad_input_among_the_events(
    place: Path, bad: bytes, fault: str, size: int
) -> None:
    (place / "in.csv").write_bytes(b'name,age\n"two\nlines",1\nb,2\n' + bad + b"\nc,3\n")
    one, two, wrong, three = all_of(CsvRows(place, converters={"age": int}), [size])

    assert [event["age"] for event in (one, two, three)] == [1, 2, 3]
    assert wrong.where.endswith("in.csv:5")
    assert fault in wrong.error
    assert wrong.raw == bad.decode(errors="replace")


def test_a_quote_that_is_never_closed_costs_its_own_line_and_not_the_rest(place: Path) -> None:
    (place / "in.csv").write_text('name,age\na,1\n"b,2\nc,3\nd,4\n')
    one, wrong, *rest = all_of(CsvRows(place))

    assert wrong.where.endswith("in.csv:3")
    assert wrong.raw == '"b,2'
    assert [event["name"] for event in (one, *rest)] == ["a", "c", "d"]


def test_a_column_to_convert_that_is_not_there_is_named(place: Path) -> None:
    (place / "in.csv").write_text("name,age\n")
    source = CsvRows(place, converters={"size": int})
    source.open(None)

    with pytest.raises(FlowError, match="no column 'size' to convert; it has name, age"):
        source.read(1)
    source.close()
