"""`@app.on_final_failure` for runs that could not call it: timed out, or their process dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from shunter.app import load_app
from shunter.model.job import ErrorKind
from shunter.model.report import Held
from shunter.payload import payload_of
from shunter.wire.messages import Assignment
from shunter.worker.pool import hook_calls
from shunter.worker.pool.process_pool import PoolSettings
from shunter.worker.pool.shared_pool import new_pool
from system.pool.foreman import Foreman
from system.witness import whole_lines

HERE = Path(__file__).parent


class HookForeman(Foreman):
    """Drives a pool of one of the apps with hooks; `said` is what the hooks have written."""

    def __init__(self, app: str, witness: Path) -> None:
        settings = PoolSettings(slots=1, grace=0.25)
        super().__init__(settings)
        spec = f"{HERE / 'hook_app.py'}:{app}"
        self.pool = new_pool(spec, load_app(spec), settings, on_output=self._collect)
        self._witness = witness

    @property
    def said(self) -> list[str]:
        return whole_lines(self._witness)

    def lose(self, **fields: Any) -> Held:
        """Give a job whose process dies."""
        self.pool.give([Assignment("lost", 1, "die", payload_of(), None, None, **fields)])
        return Held("lost", 1)


Scenario = Callable[[HookForeman], Awaitable[None]]
Drive = Callable[[Scenario], list[Any]]


@pytest.fixture(params=["alone", "shared"])
def drive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Run a scenario with each app, and return what the worker logged."""
    witness = tmp_path / "witness"
    monkeypatch.setenv("HOOK_WITNESS", str(witness))

    def run(scenario: Scenario) -> list[Any]:
        async def main() -> None:
            foreman = HookForeman(request.param, witness)
            async with foreman.pool:
                await scenario(foreman)
                if foreman.pool._is_started:
                    assert await foreman.do("add", 1, 2) == 3
                await foreman.until(lambda: not foreman.pool._runs.open)
            assert foreman.doubles == []
            assert foreman.advances == []

        with capture_logs() as logs:
            asyncio.run(main())
        return [line for line in logs if line.get("action") == "final_failure"]

    return run


def test_a_run_that_timed_out_is_told_after_its_end_was_reported(drive: Drive) -> None:
    async def scenario(foreman: HookForeman) -> None:
        jobs = [foreman.assign(each) for each in ("patient", "hang", "patient_again")]
        for job in jobs:
            error = (await foreman.outcome(job)).error
            assert error is not None
            assert error.kind is ErrorKind.TIMEOUT
        await foreman.until(lambda: len(foreman.said) == 2)
        assert sorted(foreman.said) == ["hang timeout False", "patient timeout False"]
        assert not any("noted" in report.log for report in foreman.reports.values())

    logs = drive(scenario)
    assert sorted(line["type"] for line in logs) == ["hang", "patient"]
    assert all("noted job-" in line["output"] for line in logs)
    assert all("and later" in line["output"] for line in logs)


def test_a_lost_process_is_told_if_that_was_the_last_loss(drive: Drive) -> None:
    async def scenario(foreman: HookForeman) -> None:
        await foreman.outcome(foreman.lose())
        foreman.reports.clear()
        await foreman.outcome(foreman.lose(is_last_loss=True))
        await foreman.until(lambda: foreman.said == ["die lost False"])

    assert len(drive(scenario)) == 1


def test_a_failure_that_its_own_process_told_is_not_told_again_nor_is_a_cancel(
    drive: Drive,
) -> None:
    async def scenario(foreman: HookForeman) -> None:
        failed = await foreman.outcome(foreman.assign("fail"))
        assert "noted" in failed.log
        job = foreman.assign("wait")
        await foreman.until(lambda: foreman.pool.running())
        foreman.pool.cancel([job])
        await foreman.outcome(job)
        assert foreman.said == ["fail ValueError False"]

    assert drive(scenario) == []


def test_a_hook_that_hangs_is_ended_and_holds_up_no_job(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_calls, "CALL_SECONDS", 0.3)

    async def scenario(foreman: HookForeman) -> None:
        await foreman.outcome(foreman.assign("hang_twice"))
        assert foreman.pool.held() == ()

    (line,) = drive(scenario)
    assert "ran past its time-out of 0.3 s" in line["error"]


@pytest.mark.parametrize("drive", ["alone"], indirect=True)
def test_a_pool_that_stops_still_calls_hooks(drive: Drive) -> None:
    async def scenario(foreman: HookForeman) -> None:
        foreman.assign("hang")
        await foreman.until(lambda: foreman.pool.running())
        waits = foreman.assign("add", 1, 1)
        assert await foreman.pool.stop(grace=10.0) == [waits]
        assert foreman.said == ["hang timeout False"]

    assert len(drive(scenario)) == 1
