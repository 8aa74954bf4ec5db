"""Files that are seen while a flow runs: what a kept checkpoint holds, once, whatever dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.sinks import WriteCsv, WriteJsonLines, WriteParquet
from unit.flow.io_steps import carried

Make = Callable[[Path], Any]

every = pytest.mark.parametrize("make", [WriteJsonLines, WriteCsv, WriteParquet])


def seen(path: Path) -> list[int]:
    """Read what somebody sees who looks at the output."""
    if not path.exists():
        return []
    if path.is_dir():
        import pyarrow.parquet

        parts = sorted(path.iterdir())
        return [n for part in parts for n in pyarrow.parquet.read_table(part)["n"].to_pylist()]
    lines = path.read_text().splitlines()
    if lines and not lines[0].startswith("{"):
        return list(map(int, lines[1:]))
    return [json.loads(line)["n"] for line in lines]


def events(numbers: range) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


@every
@given(data=st.data())
def test_what_is_seen_is_what_was_kept_however_often_it_dies(
    make: Make, data: st.DataObject
) -> None:
    """Each batch is written, made safe, kept and published; deaths come between any two."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "out")
        sink, saved, kept = make(path), None, 0
        sink.open_shown(None)
        for _ in range(data.draw(st.integers(1, 6))):
            count = data.draw(st.integers(0, 3))
            death = data.draw(st.sampled_from(["none", "written", "safe", "kept", "published"]))
            sink.write(events(range(kept, kept + count)))
            if death != "written":
                position = sink.checkpoint()
            if death not in ("written", "safe"):
                saved, kept = carried(position), kept + count
            if death in ("none", "published"):
                sink.publish()
                assert seen(path) == list(range(kept))
            if death != "none":
                sink.abandon()
                sink = make(path)
                sink.open_shown(saved)
                if saved is not None:
                    sink.publish()
                assert seen(path) == list(range(kept))
        sink.close()
        again = make(path)

        assert seen(path) == list(range(kept))
        assert [each.name for each in Path(folder).iterdir()] == ["out"]
        again.open_shown(None)
        again.write(events(range(1)))
        again.close()
        assert seen(path) == [0]


@every
def test_a_new_run_takes_the_place_of_the_old_output_with_its_first_batch(
    make: Make, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    old, new = make(path), make(path)
    old.open(None)
    old.write(events(range(9)))
    old.close()

    new.open_shown(None)
    new.write(events(range(2)))
    new.checkpoint()
    assert seen(path) == list(range(9))
    new.publish()
    assert seen(path) == [0, 1]
    new.abandon()


def test_a_file_that_somebody_has_cut_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = WriteJsonLines(path)
    sink.open_shown(None)
    for n in range(2):
        sink.write(events(range(n, n + 1)))
        saved = sink.checkpoint()
        sink.publish()
    sink.abandon()
    path.write_text("")

    with pytest.raises(FlowError, match="other contents than this run has published"):
        WriteJsonLines(path).open_shown(saved)


def test_columns_that_come_later_are_kept_by_parquet_files_behind_them(tmp_path: Path) -> None:
    import pyarrow.parquet

    sink = WriteParquet(tmp_path / "out")
    sink.open_shown(None)
    sink.write([{"n": 1, "new": 0.5}])
    saved = sink.checkpoint()
    sink.publish()
    sink.abandon()
    again = WriteParquet(tmp_path / "out")
    again.open_shown(saved)
    again.publish()
    again.write([{"n": 2}])
    again.checkpoint()
    again.publish()
    again.abandon()

    last = max((tmp_path / "out").iterdir())
    assert pyarrow.parquet.read_table(last).to_pylist() == [{"n": 2, "new": None}]
