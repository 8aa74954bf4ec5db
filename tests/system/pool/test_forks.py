"""Handlers that fork: twins take no part in the child's work, and end when their run is stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from shunter.model.job import ErrorKind
from system.pool.foreman import PATIENCE, Drive, Foreman, is_running

FORKING = [
    "fork_and_wait",
    "fork_far_and_wait",
    "multiprocess_and_wait",
    "fork_in_async_and_wait",
    "start_child_and_hang",
]


TIMEOUTS = {ErrorKind.TIMEOUT: 2.0, ErrorKind.CANCELLED: 2 * PATIENCE}
"""Time enough to fork, and to be cancelled, on a machine that is busy."""


@pytest.mark.parametrize("job_type", FORKING)
@pytest.mark.parametrize("kind", TIMEOUTS)
def test_what_a_handler_forked_has_ended_when_its_stopped_run_is_reported(
    drive: Drive, tmp_path: Path, job_type: str, kind: ErrorKind
) -> None:
    marker = tmp_path / "pid"

    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign(job_type, str(marker), timeout=TIMEOUTS[kind])
        await foreman.begun(job, marker)
        if kind is ErrorKind.CANCELLED:
            foreman.pool.cancel([job])
        report = await foreman.outcome(job)

        assert not is_running(int(marker.read_text()))
        assert report.error is not None
        assert report.error.kind is kind
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario)


@pytest.mark.parametrize(
    ("how", "code"), [("return", 0), ("raise", 1), ("sys.exit", 7), ("in C", 0)]
)
def test_a_twin_that_leaves_the_handler_reports_nothing_and_takes_no_job(
    drive: Drive, how: str, code: int
) -> None:
    async def scenario(foreman: Foreman) -> None:
        (child,) = foreman.pids()
        job = foreman.assign("fork_and_return", how)
        later = [foreman.assign("who") for _ in range(20)]

        assert await foreman.result(job) == [child, code]
        assert {(await foreman.result(job))[3] for job in later} == {child}
        assert foreman.doubles == []

    drive(scenario)


def test_what_a_completed_run_left_behind_ends_with_its_child(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "pid"

    async def scenario(foreman: Foreman) -> None:
        await foreman.do("fork_and_leave", str(marker))
        twin = int(marker.read_text())
        assert is_running(twin)
        os.kill(foreman.pids()[0], signal.SIGKILL)

        await foreman.until(lambda: not is_running(twin))
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario)


def test_a_child_whose_stopped_run_left_something_behind_is_replaced(
    drive: Drive, tmp_path: Path
) -> None:
    marker = tmp_path / "pid"

    async def scenario(foreman: Foreman) -> None:
        (child,) = foreman.pids()
        job = foreman.assign("fork_and_wait", str(marker))
        await foreman.begun(job, marker)
        foreman.pool.cancel([job])
        await foreman.outcome(job)

        assert (await foreman.do("who"))[3] != child

    drive(scenario)
