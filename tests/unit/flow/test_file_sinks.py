"""JSON lines and CSV files: whole or not there, and the same after a death."""

from __future__ import annotations

import csv
import json
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter import Flow
from shunter.errors import FlowError
from shunter.flow.sinks import Sink, WriteCsv, WriteJsonLines, growing_file
from shunter.flow.sources import CsvRows, JsonLines
from unit.flow.io_steps import all_of, carried, write_all, write_with_a_kill

texts = st.dictionaries(
    st.sampled_from(["a", "b"]), st.text(st.characters(exclude_categories=["Cs"])), min_size=2
)
Make = Callable[[Path], Sink]
both = pytest.mark.parametrize("make", [WriteJsonLines, WriteCsv])


def written(make: Make, events: list[Any], name: str = "plain") -> bytes:
    with TemporaryDirectory() as folder:
        sink = make(Path(folder, name))
        sink.open(None)
        write_all(sink, events, 100)
        sink.close()
        return Path(folder, name).read_bytes()


@both
@given(data=st.data())
def test_after_a_kill_the_file_is_what_it_would_have_been(make: Make, data: st.DataObject) -> None:
    events = data.draw(st.lists(texts, max_size=10))
    saved_at = data.draw(st.integers(0, len(events)))
    killed_at = data.draw(st.integers(saved_at, len(events)))
    with TemporaryDirectory() as folder:
        path = Path(folder, "out")
        write_with_a_kill(lambda: make(path), events, saved_at, killed_at)
        assert path.read_bytes() == written(make, events)
        assert list(Path(folder).iterdir()) == [path]


@both
@given(data=st.data())
def test_after_a_death_behind_the_end_the_file_is_made_again(
    make: Make, data: st.DataObject
) -> None:
    events = data.draw(st.lists(texts, max_size=10))
    saved_at = data.draw(st.integers(0, len(events)))
    with TemporaryDirectory() as folder:
        path = Path(folder, "out")
        sink = make(path)
        sink.open(None)
        write_all(sink, events[:saved_at])
        saved = carried(sink.checkpoint())
        write_all(sink, events[saved_at:])
        sink.close()

        again = make(path)
        again.open(saved)
        write_all(again, events[saved_at:])
        assert path.read_bytes() == written(make, events)
        again.close()
        assert path.read_bytes() == written(make, events)
        assert list(Path(folder).iterdir()) == [path]


@both
def test_nothing_is_seen_before_the_end(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "out"
    for last in ("1", "2"):
        before = path.read_bytes() if path.exists() else None
        sink = make(path)
        sink.open(None)
        write_all(sink, [{"a": "0"}, {"a": last}])
        sink.checkpoint()
        assert (path.read_bytes() if path.exists() else None) == before
        sink.close()
        assert last.encode() in path.read_bytes()


@both
def test_parts_write_files_of_their_own(make: Make, tmp_path: Path) -> None:
    whole: Any = make(tmp_path / "out.txt")
    for index in range(2):
        part = whole.part(index, 2)
        part.open(None)
        part.write([{"a": index}])
        part.close()

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out-00000-of-00002.txt",
        "out-00001-of-00002.txt",
    ]


@both
def test_a_run_that_is_given_up_publishes_nothing_and_lets_go(make: Make, tmp_path: Path) -> None:
    sink: Any = make(tmp_path / "out")
    sink.open(None)
    sink.write([{"a": 1}])
    saved = sink.checkpoint()
    sink.abandon()
    sink.close()
    assert not (tmp_path / "out").exists()

    other = make(tmp_path / "out")
    other.open(saved)
    other.close()
    assert b"1" in (tmp_path / "out").read_bytes()


@both
def test_closing_again_changes_nothing(make: Make, tmp_path: Path) -> None:
    sink = make(tmp_path / "out")
    sink.open(None)
    sink.close()
    sink.close()

    assert (tmp_path / "out").read_bytes() == b""


def test_rights_and_links_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    target.chmod(0o640)
    link.symlink_to(target)
    sink = WriteJsonLines(link)
    sink.open(None)
    sink.write([1])
    sink.close()

    assert link.is_symlink()
    assert target.read_text() == "1\n"
    assert target.stat().st_mode & 0o777 == 0o640


# ---- what can't be


def test_two_runs_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_file, "LOCK_SECONDS", 0.0)
    one, other = WriteJsonLines(tmp_path / "out"), WriteJsonLines(tmp_path / "out")
    one.open(None)
    one.write([1])
    with pytest.raises(FlowError, match=r"\.out\.part: another run writes to it; end that one"):
        other.open(None)
    one.close()

    other.open(None)
    other.close()
    assert (tmp_path / "out").read_bytes() == b""


@both
def test_a_place_where_nothing_can_be_written_is_named_at_once(make: Make, tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"there is no folder .*none; make it first"):
        make(tmp_path / "none" / "out").open(None)
    with pytest.raises(FlowError, match="is a folder, and would become a file"):
        make(tmp_path).open(None)
    with pytest.raises(FlowError, match=r"can't be written \(File name too long\)"):
        make(tmp_path / ("x" * 252)).open(None)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    sink = WriteJsonLines(tmp_path / "out")
    sink.open(None)
    sink.write([1])
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, allowed[1]))
    try:
        with pytest.raises(FlowError, match=r"out: can't be written \(File too large\); check its"):
            sink.checkpoint()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("damage", ["truncated", "gone", "other"])
def test_what_was_saved_and_is_damaged_ends_the_run(tmp_path: Path, damage: str) -> None:
    sink = WriteJsonLines(tmp_path / "out")
    sink.open(None)
    sink.write([1, 2, 3])
    saved = sink.checkpoint()
    del sink
    if damage == "truncated":
        os.truncate(tmp_path / ".out.part", 2)
    else:
        (tmp_path / ".out.part").unlink()
    if damage == "other":
        (tmp_path / "out").write_text("4\n5\n6\n")

    with pytest.raises(FlowError, match="begin a new run"):
        WriteJsonLines(tmp_path / "out").open(saved)


def test_what_is_no_json_is_refused_with_a_remedy(tmp_path: Path) -> None:
    sink = WriteJsonLines(tmp_path / "out")
    sink.open(None)
    with pytest.raises(FlowError, match="of type object is unsupported; map events to plain"):
        sink.write([object()])


# ---- records


@dataclass
class Sale:
    day: date
    pieces: int


def test_objects_become_lines_and_rows(tmp_path: Path) -> None:
    sales = [Sale(date(2026, 1, 2), 3)]
    for sink in (WriteJsonLines(tmp_path / "out.jsonl"), WriteCsv(tmp_path / "out.csv")):
        sink.open(None)
        sink.write(sales)
        sink.close()

    assert (tmp_path / "out.csv").read_text() == "day,pieces\n2026-01-02,3\n"
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"day": "2026-01-02", "pieces": 3}
    assert all_of(CsvRows(tmp_path, type=Sale)) == all_of(JsonLines(tmp_path, type=Sale)) == sales


def test_columns_are_chosen_and_written_even_without_rows(tmp_path: Path) -> None:
    sink = WriteCsv(tmp_path / "out", columns=["b", "a"], delimiter=";")
    sink.open(None)
    saved = sink.checkpoint()
    sink.open(carried(saved))
    sink.write([{"a": 1, "b": "x;y", "c": 3}])
    sink.close()

    assert (tmp_path / "out").read_text() == 'b;a\n"x;y";1\n'


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ({"a": 1}, "no 'b', and its columns are a, b"),
        ({"a": 1, "b": 2, "c": 3}, "more fields than the first"),
        (7, "7 has no fields; this sink takes dicts"),
    ],
)
def test_an_event_that_fits_no_columns_is_refused(tmp_path: Path, event: Any, fault: str) -> None:
    sink = WriteCsv(tmp_path / "out")
    sink.open(None)
    sink.write([{"a": 1, "b": 2}])

    with pytest.raises(FlowError, match=fault):
        sink.write([event])


DANGEROUS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", "=cmd|' /C calc'!A0"]


@pytest.mark.parametrize("text", DANGEROUS)
@pytest.mark.parametrize("formulas", ["keep", "escape"])
def test_texts_that_are_formulas_to_a_spreadsheet_are_kept_or_escaped(
    tmp_path: Path, text: str, formulas: str
) -> None:
    flow = Flow("cells")
    path = tmp_path / "cells.csv"
    flow.source([{text: text, "n": -1, "x": "a=b"}]).sink(WriteCsv(path, formulas=formulas))
    flow.run("local")

    with path.open(newline="") as file:
        head, row = csv.reader(file)
    shown = text if formulas == "keep" else f"'{text}"
    assert head == [shown, "n", "x"]
    assert row == [shown, "-1", "a=b"]


def test_another_word_for_formulas_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"formulas is 'drop'; say one of 'keep', 'escape'"):
        WriteCsv(tmp_path / "x.csv", formulas="drop")
