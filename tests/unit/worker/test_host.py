"""What every worker's parent does: it serves, is cut off, and leaves in good order."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest

from shunter import App
from shunter.errors import AppError
from shunter.model.report import Advance, Held, Report
from shunter.net.environment import Environment
from shunter.wire.messages import Assignment
from shunter.worker.host import HostSettings, WorkerHost

JOB = Assignment("a", 1, "t", b"\xc0", None, None)
RUN = Held("a", 1)


class StandingClock(Environment):
    """A clock that goes on only when it is told to."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def lease_clock(self) -> float:
        return self.now


class FakePool:
    """Does nothing; `stop` says that all it was given is undone, after it has reported `last`."""

    fatal: AppError | None = None

    def __init__(self, *_: Any, on_output: Any) -> None:
        self.on_output = on_output
        self.jobs: list[Held] = []
        self.reports: list[Report] = []
        self.last: list[Report] = []
        self.ends_by: list[float] = []
        self.graces: list[float] = []
        self.returned: dict[str, list[Held]] = {}

    @property
    def load(self) -> int:
        return len(self.jobs)

    async def start(self) -> None: ...

    async def stop(self, *, grace: float) -> list[Held]:
        self.graces.append(grace)
        self.reports += self.last
        undone, self.jobs, self.last = self.jobs, [], []
        return undone

    def give(self, jobs: Sequence[Assignment], *, begun: object = None) -> None:
        self.jobs += [Held(job.job_id, job.attempt) for job in jobs]

    def end_by(self, deadline: float) -> None:
        self.ends_by.append(deadline)

    def take_output(self) -> tuple[list[Report], list[Advance]]:
        reports, self.reports = self.reports, []
        return reports, []

    def take_asks(self) -> list[Any]:
        return []

    def take_returned(self) -> dict[str, list[Held]]:
        returned, self.returned = self.returned, {}
        return returned

    def destroy_jobs(self) -> list[Held]:
        dropped, self.jobs = self.jobs, []
        return dropped


class FakeWorker(WorkerHost):
    """Notes what it is called for, and at its nth tick does what `plan` says."""

    tick_seconds = 0.0
    kill_after = 1.0

    def __init__(self, *plan: Any, lease: float = math.inf) -> None:
        self.clock = StandingClock()
        super().__init__("spec", App(), HostSettings(grace=7.0), self.clock, FakePool)  # type: ignore[arg-type]
        self.plan, self.lease = list(plan), lease
        self.seen: list[Any] = []

    @property
    def pool(self) -> FakePool:
        return self._pool  # type: ignore[return-value]

    async def _open(self, tasks: asyncio.TaskGroup) -> None:
        self.seen.append("open")

    def _tick(self, now: float) -> None:
        if self.plan:
            self.plan.pop(0)(self)

    def _send(self, reports: Sequence[Report], advances: Sequence[Advance]) -> None:
        self.seen += [f"report {report.job_id}" for report in reports]

    def _lease_ends_at(self) -> float:
        return self.lease

    def _begin_anew(self, dropped: Sequence[Held]) -> None:
        self.seen.append(("cut off", list(dropped)))
        self.lease = math.inf

    def _say_leaving(self) -> None:
        self.seen.append("leaving")

    async def _give_up(self, undone: Sequence[Held]) -> None:
        self.seen.append(("undone", list(undone)))

    async def _close(self) -> None:
        self.seen.append("closed")


def take(worker: FakeWorker) -> None:
    worker._start([JOB], ends_at=worker.lease)


def test_it_reports_what_has_ended_before_it_gives_back_the_rest() -> None:
    def end_one(worker: FakeWorker) -> None:
        worker.pool.last = [Report("b", 1, b"\xc0")]
        worker.stop()

    async def run() -> None:
        worker = FakeWorker(take, end_one)
        await worker.run()

        assert worker.seen == ["open", "leaving", "report b", ("undone", [RUN]), "closed"]
        assert worker.pool.graces == [7.0, 0.0]

    asyncio.run(run())


def test_when_the_lease_is_over_all_jobs_are_dropped() -> None:
    def wait(worker: FakeWorker) -> None:
        worker.clock.now += 5.0

    async def run() -> None:
        worker = FakeWorker(take, wait, FakeWorker.stop, lease=104.0)
        await worker.run()

        assert worker.seen[:2] == ["open", ("cut off", [RUN])]
        assert ("undone", []) in worker.seen

    asyncio.run(run())


def test_the_watchdog_hears_when_jobs_must_have_ended_and_that_there_are_none() -> None:
    def end_all(worker: FakeWorker) -> None:
        worker.pool.jobs.clear()

    async def run() -> None:
        worker = FakeWorker(lambda _: None, take, end_all, FakeWorker.stop, lease=104.0)
        await worker.run()

        assert worker.pool.ends_by[:4] == [math.inf, 105.0, 105.0, math.inf]

    asyncio.run(run())


def test_one_that_can_start_no_children_gives_all_back_at_once_and_says_why() -> None:
    def break_down(worker: FakeWorker) -> None:
        worker.pool.fatal = AppError("gone bad")

    async def run() -> None:
        worker = FakeWorker(take, break_down)
        with pytest.raises(AppError, match="gone bad"):
            await worker.run()

        assert worker.seen == ["open", "leaving", ("undone", [RUN]), "closed"]
        assert worker.pool.graces[0] == 0.0

    asyncio.run(run())


def test_outputs_of_one_round_of_the_loop_are_sent_together() -> None:
    def end_two(worker: FakeWorker) -> None:
        for name in "bc":
            worker.pool.reports.append(Report(name, 1, b"\xc0"))
            worker.pool.on_output()
        worker.seen.append("later")

    async def run() -> None:
        worker = FakeWorker(end_two, lambda _: None, FakeWorker.stop)
        await worker.run()

        assert worker.seen[:4] == ["open", "later", "report b", "report c"]

    asyncio.run(run())


def test_a_worker_whose_children_can_t_start_yet_leaves_when_it_is_told() -> None:
    async def run() -> None:
        worker = FakeWorker()

        async def never() -> None:
            asyncio.get_running_loop().call_soon(worker.stop)
            await asyncio.Event().wait()

        worker.pool.start = never  # type: ignore[method-assign]
        async with asyncio.timeout(10):
            await worker.run()

        assert worker.seen == ["closed"]

    asyncio.run(run())


def test_runs_that_were_ended_for_another_s_sake_are_given_back_after_reports() -> None:
    said: list[Any] = []

    class Talking(WorkerHost):
        def _send(self, reports: Sequence[Report], advances: Sequence[Advance]) -> None:
            said.append([report.job_id for report in reports])

        def _return_runs(self, runs: Sequence[Held], reason: str) -> None:
            said.append((list(runs), reason))

    async def main() -> None:
        host = Talking("app", App(), HostSettings(), StandingClock(), FakePool)  # type: ignore[arg-type]
        pool: Any = host._pool
        pool.reports.append(Report("b", 1, b"\xc0"))
        pool.returned["killed"] = [RUN]
        pool.on_output()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())

    assert said == [["b"], ([RUN], "killed")]
