"""What every sink that writes files promises, on a disk, on HDFS and in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.sinks.file_sinks import EVERYWHERE, FileCase, rows
from conformance.sinks.hdfs_like import hdfs_folder
from s3_server import s3_bucket as s3_bucket
from s3_server import s3_server as s3_server
from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.sinks.file_sink import new_run
from shunter.flow.sinks.parts import PartFile
from unit.flow.io_steps import carried, write_all, write_with_a_kill

every = pytest.mark.parametrize(("case", "target"), EVERYWHERE, indirect=["target"])


@pytest.fixture(params=["disk", "hdfs", "s3"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Location:
    if request.param == "disk":
        return Location.of(tmp_path / "out")
    if request.param == "hdfs":
        return hdfs_folder(tmp_path / "hdfs", monkeypatch)
    return Location.of(f"{request.getfixturevalue('s3_bucket')}/folder/out")


@every
@pytest.mark.parametrize(("saved_at", "killed_at"), [(0, 7), (4, 4), (4, 9), (10, 10)])
def test_after_a_kill_the_output_is_what_it_would_have_been(
    case: FileCase, target: Location, saved_at: int, killed_at: int
) -> None:
    write_with_a_kill(lambda: case.make(target.url), rows(0, 10), saved_at, killed_at)

    assert case.read(target) == [*range(10)]


@every
def test_after_a_death_behind_the_publication_nothing_is_double(
    case: FileCase, target: Location
) -> None:
    sink = case.make(target.url)
    sink.open(None)
    write_all(sink, rows(0, 10))
    saved = carried(sink.checkpoint())
    write_all(sink, rows(10, 15))
    sink.close()

    again = case.make(target.url)
    again.open(saved)
    write_all(again, rows(10, 15))
    again.close()

    assert case.read(target) == [*range(15)]


@every
def test_a_run_that_is_abandoned_shows_nothing_and_its_output_is_swept(
    case: FileCase, target: Location
) -> None:
    first = case.make(target.url)
    first.open(None)
    write_all(first, rows(0, 3))
    first.checkpoint()
    write_all(first, rows(3, 5))
    first.abandon()
    first.close()
    assert case.read(target) == []

    second = case.make(target.url)
    second.open(None)
    write_all(second, rows(7, 9))
    second.close()
    assert case.read(target) == [7, 8]


@every
def test_what_is_kept_is_seen_while_it_runs_and_once(case: FileCase, target: Location) -> None:
    sink, saved = case.make(target.url), None
    for batch in range(4):
        sink.open_shown(saved)
        if saved is not None:
            sink.publish()
        write_all(sink, rows(2 * batch, 2 * batch + 2))
        saved = carried(sink.checkpoint())
        if batch % 2:
            sink.publish()
            assert case.read(target) == [*range(2 * batch + 2)]
        sink.abandon()
    last = case.make(target.url)
    last.open_shown(saved)
    last.close()

    assert case.read(target) == [*range(8)]


# ---- written by tasks


def task(output: Any, number: int, attempt: str, events: list[Any]) -> list[PartFile]:
    """Do what a task does, and return what it tells."""
    writer = output.task.writer(number, attempt)
    writer.write(events)
    return writer.finish()


@every
def test_of_tasks_that_were_tried_again_only_what_they_told_counts(
    case: FileCase, target: Location
) -> None:
    output = case.make(target.url).staged(new_run(), is_single=False)
    parts = task(output, 0, "11", rows(0, 4))
    task(output, 1, "12", rows(4, 8))  # this one was lost on its way
    parts += task(output, 1, "13", rows(4, 8))
    assert case.read(target) == []

    output.publish(parts)

    assert case.read(target) == [*range(8)]
    assert (target / "_SUCCESS").is_file() == (not target.renames and case.name != "delta")


@every
def test_a_failed_run_of_tasks_leaves_what_was_there(case: FileCase, target: Location) -> None:
    good = case.make(target.url).staged(new_run(), is_single=False)
    good.publish(task(good, 0, "1", rows(0, 4)))
    bad = case.make(target.url).staged(new_run(), is_single=False)
    task(bad, 0, "2", rows(4, 8))
    bad.abandon()

    assert case.read(target) == [*range(4)]


@every
def test_modes(case: FileCase, target: Location) -> None:
    def run(first: int, mode: str) -> None:
        sink = case.make(target.url)
        sink.mode = mode
        output = sink.staged(new_run(), is_single=False)
        output.publish(task(output, 0, "1", rows(first, first + 2)))

    run(0, "error")
    run(2, "append")
    assert case.read(target) == [0, 1, 2, 3]
    run(4, "overwrite")
    assert case.read(target) == [4, 5]
    with pytest.raises(FlowError, match='is there already, and mode is "error"; remove it'):
        run(6, "error")
    assert case.read(target) == [4, 5]


@pytest.mark.parametrize(
    ("case", "target"),
    [each for each in EVERYWHERE if "delta" not in str(each.id)],  # it has the transactions of both
    indirect=["target"],
)
def test_a_newer_run_takes_a_target_over_or_is_refused(case: FileCase, target: Location) -> None:
    older = case.make(target.url).staged(new_run(), is_single=False)
    parts = task(older, 0, "1", rows(0, 2))
    if target.is_local:
        with pytest.raises(FlowError, match="another run writes to it; end that one"):
            case.make(target.url).staged(new_run(), is_single=False)
        older.abandon()
        return
    newer = case.make(target.url).staged(new_run(), is_single=False)
    with pytest.raises(FlowError, match="writes there now, so this one"):
        older.publish(parts)
    newer.publish(task(newer, 0, "2", rows(5, 7)))
    assert case.read(target) == [5, 6]


def test_columns_that_only_some_tasks_have_seen_are_in_all_files(target: Location) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from shunter.flow.sinks import WriteParquet

    output = WriteParquet(target.url).staged(new_run(), is_single=False)
    parts = task(output, 0, "1", [{"n": 1, "x": None}])
    parts += task(output, 1, "2", [{"n": 2.5, "x": "text", "more": True}])
    assert output.narrow(parts) == parts[:1]
    output.publish(parts)

    files = [info.location for info in target.files() if info.location.name.startswith("part-")]
    tables = [pq.ParquetFile(pa.BufferReader(each.read())).read() for each in files]
    assert len({str(table.schema) for table in tables}) == 1
    assert sorted((row["n"], row["x"], row["more"]) for t in tables for row in t.to_pylist()) == [
        (1.0, None, None),
        (2.5, "text", True),
    ]


@every
def test_values_make_folders(case: FileCase, target: Location) -> None:
    sink = case.make(target.url)
    sink.partition_by = ("day", "shop")
    output = sink.staged(new_run(), is_single=False)
    events = [
        {"n": n, "day": f"2026-11-{n:02}", "shop": ("a/b", None, "c=d")[n % 3]} for n in range(6)
    ]
    output.publish(task(output, 0, "1", events))

    assert case.read(target) == [*range(6)]
    names = {info.location.parent.url for info in target.files(recursive=True)}
    assert (target / "day=2026-11-00" / "shop=a%2Fb").url in names
    assert (target / "day=2026-11-01" / "shop=__HIVE_DEFAULT_PARTITION__").url in names


def test_a_folder_that_a_task_does_not_see_is_refused(tmp_path: Path) -> None:
    from shunter.flow.sinks import WriteParquet

    output = WriteParquet(tmp_path / "out").staged(new_run(), is_single=False)
    elsewhere = output.task.__class__(
        Location.of(tmp_path / "other" / ".out.part"), output.task.form, (), output.task.run
    )
    with pytest.raises(FlowError, match=r"does not see .*; let the sink's path be a URL"):
        elsewhere.writer(0, "1")
    output.abandon()


def test_ids_of_runs_never_meet() -> None:
    assert len(new_run()) == 32
