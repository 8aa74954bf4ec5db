"""A run of tasks dies at any step of staging and publishing, on a disk, on HDFS and on S3.

Each step that changes something outside of the process is counted; the run is ended before the
first, the second, and so on. Then readers see what was there before or all that is new, and the
next run leaves what a run without faults would.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from conformance.sinks.file_sinks import EVERYWHERE, FileCase, rows
from conformance.sinks.hdfs_like import hdfs_folder
from long_runs import IS_LONG
from s3_server import s3_bucket as s3_bucket
from s3_server import s3_server as s3_server
from shunter.flow.location import Location
from shunter.flow.sinks.delta_table import DeltaLog
from shunter.flow.sinks.file_sink import new_run
from shunter.rerun import directories

MOST_STEPS = 60


class Death(BaseException):
    """What nothing in the program catches."""


class Steps:
    """Counts steps, and ends the process, as it were, before one of them."""

    def __init__(self, last: int) -> None:
        self._left, self.is_dead = last, False

    def __call__(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if self.is_dead or not self._left:
                self.is_dead = True
                raise Death
            self._left -= 1
            return step(*arguments, **options)

        return counted


@contextmanager
def dying_after(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    steps = Steps(count)
    with monkeypatch.context() as patched:
        for name in ("replace", "rename", "link", "mkdir"):
            patched.setattr(os, name, steps(getattr(os, name)))
        for name in ("create", "write", "delete", "move_to", "make_folder"):
            patched.setattr(Location, name, steps(getattr(Location, name)))
        patched.setattr(directories, "exchange", steps(directories.exchange))
        patched.setattr(DeltaLog, "commit", steps(DeltaLog.commit))
        yield steps


def run_of(case: FileCase, target: Location, first: int, mode: str) -> None:
    sink = case.make(target.url)
    sink.mode = mode
    output = sink.staged(new_run(), is_single=False)
    parts = []
    for number in range(2):
        writer = output.task.writer(number, "1")
        writer.write(rows(first + 3 * number, first + 3 * number + 3))
        parts += writer.finish()
    output.publish(parts)


@pytest.fixture(params=["disk", "hdfs", "s3"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Location:
    if request.param == "disk":
        return Location.of(tmp_path / "out")
    if request.param == "hdfs":
        return hdfs_folder(tmp_path / "hdfs", monkeypatch)
    return Location.of(f"{request.getfixturevalue('s3_bucket')}/folder/out")


HERE = [
    each
    for each in EVERYWHERE
    if IS_LONG or each.id in ("s3-parquet", "s3-delta") or not each.id.startswith("s3")
    if IS_LONG or "gzip" not in each.id
]
"""All files go through the same steps, which are requests on S3: one kind, and a Delta table."""


@pytest.mark.parametrize(("case", "target"), HERE, indirect=["target"])
def test_whatever_step_is_the_last_readers_see_the_old_or_the_new_and_the_next_run_is_whole(
    case: FileCase, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = [*range(6)], [*range(100, 106)]
    seen, gaps = set(), 0
    stride = 2 if target.scheme.startswith("s3") and not IS_LONG else 1
    for count in range(random.randrange(stride), MOST_STEPS, stride):
        run_of(case, target, 0, "overwrite")
        with dying_after(count, monkeypatch) as steps, suppress(Death):
            run_of(case, target, 100, "overwrite")
        if is_in_the_gap(target):
            gaps += 1
            case.make(target.url).staged(new_run(), is_single=False).abandon()
        found = case.read(target)
        seen.add(tuple(found))
        assert found in (old, new), f"after {count} steps"
        run_of(case, target, 100, "overwrite")
        assert case.read(target) == new
        if not steps.is_dead:
            break
    else:
        pytest.fail(f"a run has more than {MOST_STEPS} steps")

    assert seen == {tuple(old), tuple(new)}
    assert bool(gaps) == (target.scheme == "hdfs")


def is_in_the_gap(target: Location) -> bool:
    """True if the old folder is moved aside, and the new one is not in its place.

    HDFS can't exchange two folders; then the next run has to put the old one back.
    """
    return target.scheme == "hdfs" and not target.exists()
