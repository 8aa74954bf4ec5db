"""Jobs that call `@app.on_final_failure` for others, and failures that their own run has told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from shunter.app import load_app
from shunter.model.final_failure import FinalFailure
from shunter.model.identity import hook_name
from shunter.model.job import ErrorKind
from shunter.model.report import Held
from shunter.wire.messages import Assignment
from shunter.worker.pool.process_pool import PoolSettings
from shunter.worker.pool.shared_pool import new_pool
from system.pool.foreman import Foreman
from system.witness import whole_lines

HERE = Path(__file__).parent
ENDLESS = 60.0


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

    def tell(self, job_type: str, kind: ErrorKind, *, timeout: float = ENDLESS) -> Held:
        """Give a job that calls the hooks for one that failed elsewhere."""
        told = FinalFailure(
            job_id="failed", type=job_type, attempt=3, kind=kind, message="gone", run="nightly"
        )
        job_id, payload = hook_name("failed"), msgspec.msgpack.encode(told)
        self.pool.give([Assignment(job_id, 1, hook_name(job_type), payload, timeout, None)])
        return Held(job_id, 1)


Scenario = Callable[[HookForeman], Awaitable[None]]
Drive = Callable[[Scenario], None]


@pytest.fixture(params=["alone", "shared"])
def drive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Run a scenario with each app."""
    witness = tmp_path / "witness"
    monkeypatch.setenv("HOOK_WITNESS", str(witness))

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            foreman = HookForeman(request.param, witness)
            async with foreman.pool:
                await scenario(foreman)
                assert await foreman.do("add", 1, 2) == 3
                await foreman.until(lambda: not foreman.pool._runs.open)
            assert foreman.doubles == []

        asyncio.run(main())

    return run


@pytest.mark.parametrize("job_type", ["die", "wait"])
def test_hooks_are_called_with_the_failed_job_as_their_context(drive: Drive, job_type: str) -> None:
    async def scenario(foreman: HookForeman) -> None:
        report = await foreman.outcome(foreman.tell(job_type, ErrorKind.LOST))

        assert (report.error, report.result) == (None, b"\xc0")
        assert foreman.said == [f"{job_type} failed 3 nightly lost False"]
        assert report.log == "noted failed\nand later\n"
        assert foreman.advances[-1].job_id == hook_name("failed")

    drive(scenario)


def test_what_no_worker_took_in_time_is_told_as_not_placed(drive: Drive) -> None:
    async def scenario(foreman: HookForeman) -> None:
        await foreman.outcome(foreman.tell("die", ErrorKind.UNPLACED))

        assert foreman.said == ["die failed 3 nightly unplaced False"]

    drive(scenario)


@pytest.mark.parametrize("job_type", ["fail", "fail_later"])
def test_what_a_run_has_told_itself_is_reported_so_and_a_cancel_is_not_told(
    drive: Drive, job_type: str
) -> None:
    async def scenario(foreman: HookForeman) -> None:
        failed = await foreman.outcome(foreman.assign(job_type))
        assert failed.error is not None
        assert failed.error.is_told
        assert "noted" in failed.log
        job = foreman.assign("wait")
        await foreman.until(lambda: foreman.pool.running())
        foreman.pool.cancel([job])
        cancelled = await foreman.outcome(job)
        assert cancelled.error is not None
        assert not cancelled.error.is_told
        assert len(foreman.said) == 1

    drive(scenario)


@pytest.mark.parametrize("job_type", ["patient", "hang"])
def test_a_run_that_timed_out_has_told_nobody(drive: Drive, job_type: str) -> None:
    async def scenario(foreman: HookForeman) -> None:
        late = await foreman.outcome(foreman.assign(job_type))

        assert late.error is not None
        assert (late.error.kind, late.error.is_told) == (ErrorKind.TIMEOUT, False)
        assert foreman.said == []

    drive(scenario)


@pytest.mark.parametrize("job_type", ["hang_twice", "hang_later"])
def test_a_hook_that_hangs_is_ended_and_its_job_has_timed_out(drive: Drive, job_type: str) -> None:
    async def scenario(foreman: HookForeman) -> None:
        report = await foreman.outcome(foreman.tell(job_type, ErrorKind.TIMEOUT, timeout=0.3))

        assert report.error is not None
        assert report.error.kind is ErrorKind.TIMEOUT
        assert not report.error.is_told

    drive(scenario)


@pytest.mark.parametrize("job_type", ["raise_here", "raise_later"])
def test_what_a_hook_raises_fails_the_job_that_calls_it_once_the_others_are_called(
    drive: Drive, job_type: str
) -> None:
    async def scenario(foreman: HookForeman) -> None:
        report = await foreman.outcome(foreman.tell(job_type, ErrorKind.LOST))

        assert report.error is not None
        assert (report.error.kind, report.error.is_told) == (ErrorKind.EXCEPTION, False)
        assert "no mail today" in report.error.message
        assert "and later" in report.log
        assert len(foreman.said) == 1

    drive(scenario)


def test_a_call_for_a_type_that_the_app_does_not_have_is_refused(drive: Drive) -> None:
    async def scenario(foreman: HookForeman) -> None:
        told = FinalFailure(
            job_id="failed", type="unknown", attempt=1, kind=ErrorKind.LOST, message=""
        )
        for number, payload in enumerate((msgspec.msgpack.encode(told), b"\xc0")):
            job_id = f"{hook_name('failed')}-{number}"
            foreman.pool.give([Assignment(job_id, 1, hook_name("die"), payload, None, None)])
            report = await foreman.outcome(Held(job_id, 1))

            assert report.error is not None
            assert report.error.kind is ErrorKind.REFUSED
            assert "on_final_failure can't be called" in report.error.message
        assert foreman.said == []

    drive(scenario)
