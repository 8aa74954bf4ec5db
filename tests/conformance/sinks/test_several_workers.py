"""Several workers of a file sink write into one folder, which is published in one step.

In one process, and on engines; on Spark tasks take their place (tests/system/spark).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.sinks.file_sinks import EVERYWHERE, FILE_CASES, FileCase, rows
from conformance.sinks.hdfs_like import hdfs_folder
from long_runs import IS_LONG
from s3_server import s3_bucket as s3_bucket
from s3_server import s3_server as s3_server
from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.loader import load
from shunter.flow.location import Location
from shunter.flow.runners.checkpoint_folder import Checkpoints
from shunter.flow.runners.engines.runner import run_on_engines
from shunter.flow.runners.local import KeptRun, LocalRun
from shunter.flow.sinks import WriteJsonLines, WriteParquet
from shunter.flow.sinks.file_sink import new_run
from shunter.flow.sinks.parts import OUR_NAMES

every = pytest.mark.parametrize(("case", "target"), EVERYWHERE, indirect=["target"])

COUNT = 2000


@pytest.fixture(params=["disk", "hdfs", "s3"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Location:
    if request.param == "disk":
        return Location.of(tmp_path / "out")
    if request.param == "hdfs":
        return hdfs_folder(tmp_path / "hdfs", monkeypatch)
    return Location.of(f"{request.getfixturevalue('s3_bucket')}/folder/out")


class Same:
    """Gives what it gets, at the worker that its key belongs to."""

    def on_event(self, row: Any) -> Any:
        return row


def flow_into(sink: Any, first: int = 0) -> Flow:
    flow = Flow("shared")
    flow.source(rows(first, first + COUNT)).key_by("n").stateful(Same).sink(sink)
    return flow


def writers_in(target: Location) -> set[str]:
    """Return which workers have written the parts of a folder; all names have to be such."""
    names = [info.location.name for info in target.files(recursive=True)]
    parts = [name for name in names if OUR_NAMES.search(name)]
    return {name.partition(".")[0].split("-")[3] for name in parts}


@every
def test_workers_in_one_process_write_one_folder(case: FileCase, target: Location) -> None:
    LocalRun(flow_into(case.make(target.url)), nodes=3).run()

    assert case.read(target) == [*range(COUNT)]
    assert writers_in(target) == {"0", "1", "2"}
    if case.name != "delta":  # a table is added to
        LocalRun(flow_into(case.make(target.url), first=COUNT), nodes=2).run()
        assert case.read(target) == [*range(COUNT, 2 * COUNT)]
        assert writers_in(target) == {"0", "1"}
    near = target.parent.files(recursive=True)
    assert all(info.location.url.startswith(f"{target.url}/") for info in near)


@every
def test_a_run_that_ends_early_shows_nothing_and_goes_on_from_its_checkpoint(
    case: FileCase, target: Location, tmp_path: Path
) -> None:
    kept = Checkpoints(tmp_path / "checkpoints")

    def stop_at_the_third_checkpoint() -> None:
        found = kept.latest()
        if found is not None and found.number >= 3:
            raise KeyboardInterrupt

    def begun() -> KeptRun:
        return KeptRun(flow_into(case.make(target.url)), kept, nodes=2, every=0.0)

    with pytest.raises(KeyboardInterrupt):
        begun().run(stop_at_the_third_checkpoint)
    assert case.read(target) == []
    begun().run()

    assert case.read(target) == [*range(COUNT)]


@every
def test_a_publication_that_is_repeated_after_a_death_adds_nothing(
    case: FileCase, target: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(tmp_path / "checkpoints")

    def begun() -> KeptRun:
        sink = case.make(target.url)
        sink.mode = "append"
        return KeptRun(flow_into(sink), kept, nodes=2, every=60.0)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "clear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begun().run()
    begun().run()

    assert case.read(target) == [*range(COUNT)]


def interrupted(_: object) -> None:
    raise KeyboardInterrupt


def test_another_run_is_refused_on_a_disk_while_one_lives(tmp_path: Path) -> None:
    one = LocalRun(flow_into(WriteParquet(tmp_path / "out")), nodes=2)
    with pytest.raises(FlowError, match="another run writes to it; end that one"):
        LocalRun(flow_into(WriteParquet(tmp_path / "out")), nodes=2)
    one.run()


def test_a_file_that_was_named_is_none_that_workers_share(tmp_path: Path) -> None:
    LocalRun(flow_into(WriteJsonLines(tmp_path / "out.jsonl")), nodes=2).run()

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out-00000-of-00002.jsonl",
        "out-00001-of-00002.jsonl",
    ]


def test_a_worker_that_does_not_see_the_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = WriteParquet(tmp_path / "out").share(0, new_run())

    with pytest.raises(FlowError, match=r"does not see .*; let the sink's path be a URL"):
        elsewhere.open(None)


ON_ENGINES = """
from shunter import Flow
from shunter.flow.sinks import WriteCsv, WriteDelta, WriteJsonLines, WriteParquet

class Row:
    def __init__(self, key):
        self.key = key

    def on_event(self, n):
        return {"n": n, "text": f"n{n}"}

flow = Flow("shared")
rows = flow.source(range(2000)).key_by(abs).stateful(Row)
for sink in (WriteCsv, WriteDelta, WriteJsonLines, WriteParquet):
    rows.sink(sink(f"{TARGET}/{sink.__name__}"))
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", ["disk", "s3"] if IS_LONG else ["s3"])
def test_workers_on_engines_write_one_folder(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if place == "s3":
        folder = Location.of(f"{request.getfixturevalue('s3_bucket')}/folder")
    else:
        folder = Location.of(tmp_path / "folder")
        folder.make_folder()
    file = tmp_path / "shared.py"
    file.write_text(f"TARGET = {folder.url!r}\n{ON_ENGINES}")

    run_on_engines(load(str(file)), str(file), count=2)

    for case in FILE_CASES:
        target = folder / type(case.make("out")).__name__
        assert case.read(target) == [*range(2000)], case
        assert writers_in(target) == {"0", "1"}
