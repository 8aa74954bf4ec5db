"""How a run is stopped: by request, by SIGTERM, by SIGKILL; cancelled, or out of time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Held, Report
from system.pool.foreman import Drive, Foreman, is_alive, is_running

STOPPED = [
    ("polite_raising", "request"),
    ("patient", "request"),
    ("deaf", "SIGTERM"),
    ("deaf_async", "SIGTERM"),
    ("blocking_async", "SIGTERM"),
    ("stubborn", "SIGKILL"),
]


def grace_for(ended_by: str) -> float:
    """Give a busy machine time where a request is to be enough, and else no more than it takes."""
    return {"request": 20.0, "SIGTERM": 1.0, "SIGKILL": 0.25}[ended_by]


def error_of(report: Report) -> Failure:
    assert report.error is not None
    return report.error


@pytest.mark.parametrize(("job_type", "ended_by"), STOPPED)
def test_a_cancel_takes_what_it_takes(
    drive: Drive, tmp_path: Path, job_type: str, ended_by: str
) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign(job_type, marker=str(marker))
        await foreman.begun(job, marker)
        foreman.pool.cancel([job])
        error = error_of(await foreman.outcome(job))

        assert (error.kind, error.ended_by) == (ErrorKind.CANCELLED, ended_by)
        assert error.message.startswith("cancelled on request")
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario, grace=grace_for(ended_by))


@pytest.mark.parametrize(("job_type", "ended_by"), [("polite", "request"), *STOPPED])
def test_a_timeout_takes_what_it_takes(
    drive: Drive, tmp_path: Path, job_type: str, ended_by: str
) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign(job_type, marker=str(marker), timeout=0.1)
        error = error_of(await foreman.outcome(job))

        assert (error.kind, error.ended_by) == (ErrorKind.TIMEOUT, ended_by)
        assert error.message.startswith("ran past its time-out of 0.1 s")
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario, grace=grace_for(ended_by))


def test_a_handlers_own_timeout_counts(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        error = error_of(await foreman.outcome(foreman.assign("nap_limited", 30)))

        assert error.message.startswith("ran past its time-out of 0.2 s")

    drive(scenario)


@pytest.mark.parametrize("job_type", ["deaf", "patient", "deaf_async"])
def test_finally_blocks_run_before_anything_is_killed(
    drive: Drive, tmp_path: Path, job_type: str
) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        pids = foreman.pids()
        job = foreman.assign(job_type, marker=str(marker))
        await foreman.begun(job, marker)
        foreman.pool.cancel([job])
        await foreman.outcome(job)

        assert Path(f"{marker}.cleaned").exists()
        assert foreman.pids() == pids

    drive(scenario, grace=grace_for("SIGTERM"))


def test_a_handler_that_completes_after_a_cancel_has_completed(
    drive: Drive, tmp_path: Path
) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign("polite", marker=str(marker))
        await foreman.begun(job, marker)
        foreman.pool.cancel([job])

        assert await foreman.result(job) == "stopped by itself"

    drive(scenario)


def test_a_job_cancelled_in_the_queue_never_starts_and_the_others_keep_their_order(
    drive: Drive, tmp_path: Path
) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        running = foreman.assign("rest", str(marker))
        await foreman.begun(running, marker)
        jobs = [foreman.assign("add", n, 0) for n in range(10)]
        foreman.pool.cancel([jobs[3], jobs[7], Held("stranger", 1)])

        for job in (jobs[3], jobs[7]):
            error = error_of(await foreman.outcome(job))
            assert error == Failure(ErrorKind.CANCELLED, "cancelled before it started")
        foreman.may_end(marker)
        kept = [job for job in jobs if job not in (jobs[3], jobs[7])]
        assert [await foreman.result(job) for job in kept] == [0, 1, 2, 4, 5, 6, 8, 9]
        done = [job_id for job_id in foreman.reports if job_id in {job.job_id for job in kept}]
        assert done == [job.job_id for job in kept]

    drive(scenario)


def test_cancels_that_race_with_short_jobs_end_every_job_once(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        jobs: list[Held] = []
        for n in range(300):
            jobs += [foreman.assign("add", n, 0) for _ in range(4)]
            foreman.pool.cancel(jobs[-3:-1])
            await asyncio.sleep(0)
        for job in jobs:
            await foreman.outcome(job)

        kinds = {report.error.kind for report in foreman.reports.values() if report.error}
        assert kinds <= {ErrorKind.CANCELLED}
        assert len(foreman.reports) == len(jobs)
        assert foreman.pool.held() == ()

    drive(scenario, slots=2, grace=5.0)


def test_what_a_killed_handler_printed_is_kept(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        report = await foreman.outcome(foreman.assign("stubborn", str(marker), timeout=0.1))

        assert report.log == "you won't stop me\n"

    drive(scenario)


def test_sigkill_takes_what_the_handler_started_along(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "pid"

    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign("start_child_and_hang", str(marker))
        await foreman.begun(job, marker)
        grandchild = int(marker.read_text())
        assert is_alive(grandchild)
        foreman.pool.cancel([job])

        assert error_of(await foreman.outcome(job)).ended_by == "SIGKILL"
        await foreman.until(lambda: not is_running(grandchild))

    drive(scenario)
