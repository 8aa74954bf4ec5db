"""Folders that are followed: files are read as they arrive, and never twice."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from s3_server import s3_bucket, s3_server
from shunter import Flow
from shunter.flow.location import Location
from shunter.flow.runners.local import LocalRun
from shunter.flow.sources import CsvRows, JsonLines, ParquetRows, TextLines, pieces
from shunter.flow.sources.splits import SplitSizes
from unit.flow.io_steps import carried

__all__ = ["s3_bucket", "s3_server"]


def parquet(numbers: list[int]) -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.table({"n": numbers}), body, row_group_size=2)
    return body.getvalue()


KINDS: dict[str, tuple[Callable[..., Any], str, Callable[[list[int]], bytes]]] = {
    "json lines": (JsonLines, ".jsonl", lambda ns: "".join(f'{{"n": {n}}}\n' for n in ns).encode()),
    "text lines": (TextLines, ".txt", lambda ns: "".join(f"{n}\n" for n in ns).encode()),
    "csv rows": (CsvRows, ".csv", lambda ns: ("n\n" + "".join(f"{n}\n" for n in ns)).encode()),
    "parquet rows": (ParquetRows, ".parquet", parquet),
}


class Folder:
    """A folder to which files come, each a second later than the one before."""

    def __init__(self, place: Location, kind: str) -> None:
        self.place = place
        self.source, self.suffix, self._body = KINDS[kind]
        self._seconds = 1_700_000_000

    def put(self, name: str, numbers: list[int], *, suffix: str = "", older: int = 0) -> None:
        path = self.place / f"{name}{suffix or self.suffix}"
        with path.create() as file:
            file.write(self._body(numbers))
        if path.is_local:
            self._seconds += 1
            os.utime(path.path, (self._seconds - older,) * 2)

    def follow(self, **options: Any) -> Any:
        return self.source(self.place, follow=True, **options)


@pytest.fixture(autouse=True)
def _always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "LOOK_SECONDS", 0.0)


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(Location.of(tmp_path / "in"), request.param)


def numbers(events: list[Any] | None) -> list[int]:
    assert events is not None, "a folder that is followed has no end"
    return [int(event["n"] if isinstance(event, dict) else event) for event in events]


def read(source: Any, times: int = 6, limit: int = 100) -> list[int]:
    return [number for _ in range(times) for number in numbers(source.read(limit))]


def test_files_are_read_in_the_order_of_their_arrival(folder: Folder) -> None:
    source = folder.follow()
    source.open(None)
    assert read(source) == []

    folder.put("b", [1, 2, 3])
    folder.put("a", [4])
    assert read(source) == [1, 2, 3, 4]
    assert read(source) == []

    folder.put("c", [5])
    folder.put("late", [6], older=100)
    assert sorted(read(source)) == [5, 6]
    source.close()


def test_what_is_still_being_written_or_is_no_data_is_left_alone(folder: Folder) -> None:
    folder.put(".hidden", [1])
    folder.put("_temporary", [2])
    folder.put("written", [3], suffix=f"{folder.suffix}.part")
    folder.put("copied", [4], suffix=f"{folder.suffix}.tmp")
    folder.put("there", [5])
    source = folder.follow()
    source.open(None)

    assert read(source) == [5]
    source.close()


def test_from_every_position_the_rest_is_read(folder: Folder) -> None:
    for name, start in (("b", 0), ("a", 5), ("c", 10)):
        folder.put(name, list(range(start, start + 5)))
    source = folder.follow()
    source.open(None)
    positions = [(0, carried(source.position()))]
    while some := numbers(source.read(2)):
        positions.append((positions[-1][0] + len(some), carried(source.position())))
    positions.append((15, carried(source.position())))
    source.close()
    folder.put("d", [15, 16])

    assert positions[-1][0] == 15
    for count, position in positions:
        again = folder.follow()
        again.open(position)
        assert read(again) == list(range(count, 17))
        again.close()


def test_files_that_were_read_may_be_taken_away(folder: Folder) -> None:
    folder.put("a", [1])
    folder.put("b", [2])
    source = folder.follow()
    source.open(None)
    assert read(source) == [1, 2]
    (folder.place / f"a{folder.suffix}").delete()
    (folder.place / f"b{folder.suffix}").delete()
    folder.put("c", [3])
    assert read(source) == [3]
    position = carried(source.position())
    source.close()

    again = folder.follow()
    again.open(position)
    folder.put("d", [4])
    assert read(again) == [4]
    assert len(again.position()[0][1]) == 2 * pieces.NAME_BYTES
    again.close()


def test_parts_share_the_files(folder: Folder) -> None:
    for number in range(12):
        folder.put(f"file-{number}", [number])
    found = []
    for index in range(3):
        part = folder.follow().part(index, 3)
        part.open(None)
        found += read(part)
        part.close()

    assert sorted(found) == list(range(12))
    assert folder.follow().splits(SplitSizes(1, 1, 1)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_in_a_store_is_followed(kind: str, s3_bucket: str) -> None:
    folder = Folder(Location.of(s3_bucket) / "in", kind)
    source = folder.follow()
    source.open(None)
    assert read(source) == []
    folder.put("a", [1, 2])
    assert read(source) == [1, 2]
    position = carried(source.position())
    source.close()
    folder.put("b", [3])

    again = folder.follow()
    again.open(position)
    assert read(again) == [3]
    again.close()


def test_a_flow_follows_a_folder_until_it_is_told_to_end(folder: Folder) -> None:
    found: list[Any] = []
    flow = Flow("following")
    flow.source(folder.follow()).sink(found.append)
    run = LocalRun(flow)
    for count in range(1, 4):
        folder.put(f"file-{count}", [count])
        for _ in range(20):
            run.step()
        assert numbers(found) == list(range(1, count + 1))
    for worker in run.workers:
        worker.be_quiet()
    run.run()
    assert len(found) == 3
