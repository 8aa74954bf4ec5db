"""Jobs that leave the pool undone: recalled, overdue, destroyed, or left when it stops."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from shunter.model.report import Held
from system.pool.foreman import PATIENCE, Drive, Foreman


def test_recall_takes_back_what_has_not_started_and_nothing_else(
    drive: Drive, tmp_path: Path
) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        running = foreman.assign("polite", str(marker))
        await foreman.begun(running, marker)
        waiting = [foreman.assign("add", n, 0) for n in range(2000)]
        large = foreman.assign("echo", bytes(1 << 20))

        assert foreman.pool.recall() == [*waiting, large]
        assert foreman.pool.held() == (running,)
        assert foreman.pool.running() == 1
        foreman.pool.cancel([running])
        assert await foreman.result(running) == "stopped by itself"
        assert len(foreman.reports) == 1

    drive(scenario)


def test_only_jobs_that_waited_too_long_are_overdue(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        running = foreman.assign("polite", str(marker))
        await foreman.begun(running, marker)
        before = time.monotonic()
        old = [foreman.assign("add", n, 0) for n in range(3)]
        given_at = time.monotonic()
        assert foreman.pool.overdue(before + 0.4) == []
        await asyncio.sleep(0.1)
        young = foreman.assign("add", 7, 0)

        assert foreman.pool.overdue(given_at + 0.55) == old
        assert foreman.pool.held() == (running, young)
        foreman.pool.cancel([running])
        assert await foreman.result(young) == 7

    drive(scenario)


def test_destroying_leaves_no_job_running_and_reports_none(drive: Drive, tmp_path: Path) -> None:
    markers = [tmp_path / "one", tmp_path / "two"]

    async def scenario(foreman: Foreman) -> None:
        before = foreman.pids()
        running = [foreman.assign("stubborn", str(marker)) for marker in markers]
        for job, marker in zip(running, markers, strict=True):
            await foreman.begun(job, marker)
        waiting = [foreman.assign("add", n, 0) for n in range(300)]

        assert foreman.pool.destroy_jobs() == running + waiting
        assert foreman.pool.held() == ()
        await foreman.until(lambda: not set(before) & set(foreman.pids()))
        assert await foreman.do("add", 1, 1) == 2
        assert len(foreman.reports) == 1

    drive(scenario, slots=2)


def test_destroying_while_a_child_takes_a_job_runs_none_afterwards(
    drive: Drive, tmp_path: Path
) -> None:
    async def scenario(foreman: Foreman) -> None:
        for round_number in range(40):
            markers = [tmp_path / f"{round_number}-{n}" for n in range(6)]
            for marker in markers:
                foreman.assign("polite", str(marker))
            for _ in range(round_number % 7):
                await asyncio.sleep(0)
            foreman.pool.destroy_jobs()
            begun = [marker.exists() for marker in markers]
            await asyncio.sleep(0.002)
            # A handler may get as far as its first step while the signal travels, not further.
            assert foreman.pool.running() == 0
            assert sum(marker.exists() for marker in markers) - sum(begun) <= 2
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario, slots=2)


def test_stopping_finishes_what_runs_and_returns_what_waits(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        running = foreman.assign("rest", str(marker))
        await foreman.begun(running, marker)
        waiting = foreman.assign("add", 1, 1)
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(foreman.pool.stop(grace=PATIENCE))
            await asyncio.sleep(0.1)
            assert not stopping.done()
            foreman.may_end(marker)

        assert stopping.result() == [waiting]
        assert await foreman.result(running) == "rested"
        assert foreman.pids() == []

    drive(scenario)


def test_stopping_kills_what_does_not_finish_in_time(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        running = foreman.assign("stubborn", str(marker))
        await foreman.begun(running, marker)
        began = time.monotonic()

        assert await foreman.pool.stop(grace=0.2) == [running]
        assert time.monotonic() - began >= 0.2
        assert foreman.reports == {}

    drive(scenario)


def test_a_job_given_while_the_pool_stops_comes_back(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        running = foreman.assign("rest", str(marker))
        await foreman.begun(running, marker)
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(foreman.pool.stop(grace=PATIENCE))
            await asyncio.sleep(0.05)
            late = foreman.assign("add", 1, 1)
            foreman.may_end(marker)

        assert stopping.result() == [late]
        assert foreman.pool.recall() == []

    drive(scenario)


def test_stopping_again_after_it_was_cancelled_half_way_leaves_nothing(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        running = foreman.assign("nap", 30)
        await foreman.until(lambda: foreman.pool.running() == 1)
        try:
            async with asyncio.timeout(0.1):
                await foreman.pool.stop(grace=30)
        except TimeoutError:
            pass

        assert await foreman.pool.stop(grace=0.0) == [running]
        assert foreman.pids() == []

    drive(scenario)


def test_signals_from_strangers_do_not_disturb_a_run(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign("rest", str(marker))
        await foreman.begun(job, marker)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            os.kill(foreman.pids()[0], number)
        await asyncio.sleep(0.1)  # in which a run that is disturbed would end otherwise
        foreman.may_end(marker)

        assert await foreman.result(job) == "rested"

    drive(scenario)


def test_held_are_the_running_and_the_waiting(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        jobs = [foreman.assign("nap", 30), foreman.assign("noop")]

        assert foreman.pool.held() == tuple(jobs)
        assert foreman.pool.held()[0] == Held("job-1", 1)

    drive(scenario)
