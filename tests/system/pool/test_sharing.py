"""Jobs that share a child process: how they run, stop, block and die."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from shunter.app import load_app
from shunter.model.job import ErrorKind
from shunter.model.journal import LiveLog, live_log_of
from shunter.model.report import Held
from shunter.worker.asks import KeepAsk
from shunter.worker.pool.process_pool import PoolSettings
from shunter.worker.pool.shared_child import LOG_SECONDS, MOST_LOG_BYTES, MOST_LOGS
from shunter.worker.pool.shared_pool import SharedPool, new_pool
from system.pool.foreman import PATIENCE, Foreman, is_alive

APP = f"{Path(__file__).parent / 'shared_app.py'}:app"


class SharedForeman(Foreman):
    """Also notes what the pool gives back."""

    def __init__(self, settings: PoolSettings) -> None:
        super().__init__(settings)
        self.pool = new_pool(APP, load_app(APP), settings, on_output=self._collect)
        self.returned: dict[str, str] = {}
        self.logs: dict[str, list[LiveLog]] = {}
        self.told: list[tuple[float, int]] = []

    def _collect(self) -> None:
        for run in self.pool.take_asks():
            assert isinstance(run.asked.ask, KeepAsk)
            body = run.asked.ask.body
            log = live_log_of(body)
            assert log is not None
            self.logs.setdefault(run.job.job_id, []).append(log)
            self.told.append((monotonic(), len(body)))
        super()._collect()
        for reason, runs in self.pool.take_returned().items():
            self.returned.update((run.job_id, reason) for run in runs)

    def is_settled(self, *jobs: Held) -> bool:
        return all(job.job_id in self.reports or job.job_id in self.returned for job in jobs)


Scenario = Callable[[SharedForeman], Awaitable[None]]
Drive = Callable[..., None]


@pytest.fixture
def share() -> Drive:
    """Run a scenario; afterwards no child is left, and no job was settled twice."""

    def run(scenario: Scenario, **settings: Any) -> None:
        async def main() -> None:
            options = {"slots": 1, "grace": 0.25, "max_block": PATIENCE} | settings
            foreman = SharedForeman(PoolSettings(**options))
            assert isinstance(foreman.pool, SharedPool)
            await foreman.pool.start()
            await foreman.until(lambda: foreman.pool._supervisor.alive == options["slots"])
            children = foreman.pids()
            try:
                await scenario(foreman)
            finally:
                children += foreman.pids()
                await foreman.pool.stop(grace=0.0)
            assert foreman.doubles == []
            assert not foreman.reports.keys() & foreman.returned.keys()
            assert [pid for pid in children if is_alive(pid)] == []

        asyncio.run(main())

    return run


@pytest.mark.parametrize("kind", ["meet", "meet_in_threads"])
def test_many_jobs_are_in_one_process_at_a_time(share: Drive, tmp_path: Path, kind: str) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        jobs = [foreman.assign(kind, 20, str(tmp_path)) for _ in range(20)]

        answers = {await foreman.result(job) for job in jobs}

        assert len(answers) == (1 if kind == "meet" else 20)

    share(scenario)


def test_jobs_are_spread_over_children_and_a_job_that_wants_to_be_alone_is(share: Drive) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        naps = [foreman.assign("nap", 0.3, number) for number in range(10)]
        alone = [foreman.assign("alone", 0.05) for _ in range(3)]
        assert foreman.pool.window <= 13, "a job waits to be alone: nothing more should come"

        assert [await foreman.result(job) for job in naps] == list(range(10))
        for job in alone:
            pid, is_main_thread = await foreman.result(job)
            assert pid in foreman.pids()
            assert is_main_thread
        assert foreman.pool.load == 0

    share(scenario, slots=2)


def test_each_run_has_its_own_output_progress_and_context(share: Drive) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        jobs = {word: foreman.assign("talk", word, 5) for word in ("ada", "bob")}
        jobs |= {word: foreman.assign("talk_in_thread", word) for word in ("cy", "dee")}

        for word, job in jobs.items():
            assert await foreman.result(job) == job.job_id
            lines = foreman.reports[job.job_id].log.splitlines()
            assert lines
            assert all(word in line for line in lines), "somebody else's words"
        assert f"{'ada'} from a thread" in foreman.reports[jobs["ada"].job_id].log
        told = [a for a in foreman.advances if a.job_id == jobs["ada"].job_id]
        assert (told[-1].done, told[-1].total) == (5, 5)

    share(scenario)


def test_each_run_tells_its_own_log_while_it_goes_on(share: Drive, tmp_path: Path) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        words = {"ada": "count", "bob": "count", "cy": "count_in_thread", "dee": "count_in_thread"}
        jobs = {
            word: foreman.assign(kind, word, str(tmp_path)).job_id for word, kind in words.items()
        }
        await foreman.until(
            lambda: all(len(foreman.logs.get(job_id, ())) >= 2 for job_id in jobs.values())
        )

        for word, job_id in jobs.items():
            first, second = foreman.logs[job_id][:2]
            assert second.text.startswith(first.text)
            assert len(second.text) > len(first.text)
            assert all(word in line for line in second.text.splitlines()), "somebody else's words"
            (tmp_path / word).touch()
        for job_id in jobs.values():
            report = await foreman.outcome(Held(job_id, 1))
            assert report.log.startswith(foreman.logs[job_id][-1].text)

    share(scenario)


def test_a_run_that_is_alone_in_a_shared_child_tells_its_log_too(
    share: Drive, tmp_path: Path
) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        job = foreman.assign("count_alone", "eve", str(tmp_path))
        await foreman.until(lambda: foreman.logs.get(job.job_id))

        assert all("eve" in line for line in foreman.logs[job.job_id][0].text.splitlines())
        (tmp_path / "eve").touch()
        await foreman.outcome(job)

    share(scenario)


def test_runs_that_end_soon_or_print_nothing_tell_no_log(share: Drive, tmp_path: Path) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        quiet = foreman.assign("nap", 3.0)
        loud = foreman.assign("count", "fay", str(tmp_path))
        quick = [foreman.assign("talk", "gus", 3) for _ in range(50)]
        await foreman.until(lambda: len(foreman.logs.get(loud.job_id, ())) >= 2)

        assert foreman.logs.keys() == {loud.job_id}
        (tmp_path / "fay").touch()
        for job in (quiet, loud, *quick):
            await foreman.outcome(job)

    share(scenario)


def test_of_many_that_print_without_end_each_has_its_turn_within_bounds(
    share: Drive, tmp_path: Path
) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        jobs = [foreman.assign("count", "hal", str(tmp_path), size=1000) for _ in range(40)]
        await foreman.until(lambda: len(foreman.logs) == len(jobs))

        (tmp_path / "hal").touch()
        for job in jobs:
            await foreman.outcome(job)
        assert max(len(log.text) for some in foreman.logs.values() for log in some) <= 16 << 10
        turns = 2 + (foreman.told[-1][0] - foreman.told[0][0]) / LOG_SECONDS
        assert len(foreman.told) <= MOST_LOGS * turns
        assert sum(size for _, size in foreman.told) <= (MOST_LOG_BYTES + (17 << 10)) * turns

    share(scenario)


def test_a_run_that_prints_what_no_encoding_has_ends_as_any_other(share: Drive) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        job = foreman.assign("utter")

        assert (await foreman.outcome(job)).log == "\\ud800\n"

    share(scenario)


def test_a_report_says_how_long_each_run_took(share: Drive) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        long, short = foreman.assign("nap", 0.3), foreman.assign("nap", 0.0)

        (one, other) = (await foreman.outcome(long), await foreman.outcome(short))

        assert one.ran is not None
        assert other.ran is not None
        assert one.ran >= 0.3
        assert other.ran < one.ran
        assert one.waited is not None

    share(scenario)


def test_a_cancel_and_a_time_out_end_their_own_run_only(share: Drive) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        neighbour = foreman.assign("nap", 1.0, 7)
        cancelled = foreman.assign("nap", 60.0)
        late = foreman.assign("nap", 60.0, timeout=0.2)
        refused = foreman.assign("nap", "long")
        failing = foreman.assign("fail")
        foreman.pool.cancel([cancelled])

        for job, kind in (
            (cancelled, ErrorKind.CANCELLED),
            (late, ErrorKind.TIMEOUT),
            (refused, ErrorKind.REFUSED),
            (failing, ErrorKind.EXCEPTION),
        ):
            error = (await foreman.outcome(job)).error
            assert error is not None
            assert error.kind is kind
        assert await foreman.result(neighbour) == 7

    share(scenario)


def test_a_thread_that_comes_by_is_ended_by_an_exception(share: Drive, tmp_path: Path) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        job = foreman.assign("sleep_in_thread", str(tmp_path / "m"), 60.0, timeout=0.1)

        error = (await foreman.outcome(job)).error

        assert error is not None
        assert (error.kind, error.ended_by) == (ErrorKind.TIMEOUT, "SIGTERM")

    share(scenario)


def test_a_run_that_does_not_stop_is_killed_and_its_neighbours_are_given_back(
    share: Drive, tmp_path: Path
) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        marker = tmp_path / "deaf"
        job = foreman.assign("deaf", str(marker))
        neighbours = [foreman.assign("nap", 60.0) for _ in range(3)]
        await foreman.begun(job, marker)
        foreman.pool.cancel([job])

        error = (await foreman.outcome(job)).error

        assert error is not None
        assert (error.kind, error.ended_by) == (ErrorKind.CANCELLED, "SIGKILL")
        await foreman.until(lambda: foreman.is_settled(*neighbours))
        assert foreman.returned.keys() == {held.job_id for held in neighbours}
        assert job.job_id in next(iter(foreman.returned.values()))
        assert await foreman.do("nap", 0.0, 3) == 3

    share(scenario)


@pytest.mark.parametrize(
    ("kind", "is_stubborn", "ended_by"),
    [("block", False, "SIGTERM"), ("block", True, "SIGKILL"), ("block_in_task", False, "SIGTERM")],
)
def test_a_handler_that_blocks_the_loop_is_found_and_pays_alone(
    share: Drive, tmp_path: Path, kind: str, is_stubborn: bool, ended_by: str
) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        marker = tmp_path / "blocks"
        neighbours = [foreman.assign("nap", 30.0, timeout=0.1) for _ in range(2)]
        neighbours += [foreman.assign("nap", 30.0)]
        more = {"is_stubborn": True} if is_stubborn else {}
        job = foreman.assign(kind, str(marker), **more)

        report = await foreman.outcome(job)

        assert report.error is not None
        assert (report.error.kind, report.error.ended_by) == (ErrorKind.EXCEPTION, ended_by)
        assert "blocked the event loop" in report.error.message
        assert "shared_app.py:" in report.error.message
        assert "time.sleep" in report.error.traceback
        assert neighbours[2].job_id not in foreman.reports
        if is_stubborn:
            await foreman.until(lambda: foreman.is_settled(*neighbours))
            assert neighbours[2].job_id in foreman.returned

    share(scenario, max_block=1.0)


def test_one_that_blocks_for_a_moment_is_let_be(share: Drive, tmp_path: Path) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        job = foreman.assign("block", str(tmp_path / "m"), 1.0)
        neighbour = foreman.assign("nap", 0.0, 5)

        assert await foreman.result(job) == "done"
        assert await foreman.result(neighbour) == 5

    share(scenario)


def test_a_death_costs_all_that_had_begun_and_nothing_that_had_not(
    share: Drive, tmp_path: Path
) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        neighbour = foreman.assign("nap", 60.0)
        culprit = foreman.assign("die")

        for job in (neighbour, culprit):
            error = (await foreman.outcome(job)).error
            assert error is not None
            assert error.kind is ErrorKind.LOST
            assert "1 other" in error.message
        assert await foreman.do("nap", 0.0, 3) == 3

    share(scenario)


def test_a_child_that_has_done_its_share_of_jobs_is_replaced_when_they_have_ended(
    share: Drive,
) -> None:
    async def scenario(foreman: SharedForeman) -> None:
        (first,) = foreman.pids()
        jobs = [foreman.assign("nap", 0.05, number) for number in range(25)]

        assert [await foreman.result(job) for job in jobs] == list(range(25))
        await foreman.until(lambda: foreman.ready() and first not in foreman.ready())

    share(scenario, max_jobs_per_child=10)
