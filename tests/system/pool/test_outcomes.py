"""What a job comes to: a result, a failure, a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.model.job import ErrorKind
from shunter.model.retry import Retry
from system.pool.foreman import Drive, Foreman


def test_results_come_back_as_values(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        assert await foreman.do("add", 1, 2) == 3
        assert await foreman.do("add", x=1) == 2
        assert await foreman.do("add", 5, y=5) == 10
        assert await foreman.do("noop") is None

    drive(scenario)


def test_async_handlers_run_one_after_the_other_on_one_loop(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        jobs = [foreman.assign("add_later", n, 1) for n in range(20)]

        assert [await foreman.result(job) for job in jobs] == list(range(1, 21))

    drive(scenario)


def test_the_context_knows_job_run_and_attempt(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        job_id, run_id, attempt, pid = await foreman.do("who")

        assert (job_id, run_id, attempt) == ("job-1", "run-who", 1)
        assert [pid] == foreman.pids()

    drive(scenario)


def test_many_jobs_at_once_are_all_done_exactly_once(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        jobs = [foreman.assign("add", n, 0) for n in range(5000)]

        assert [await foreman.result(job) for job in jobs] == list(range(5000))
        assert foreman.pool.held() == ()

    drive(scenario, slots=2)


def test_the_window_opens_for_short_jobs_and_closes_for_a_long_one(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        assert foreman.pool.window == 2
        while foreman.pool.window < 64:
            await foreman.result([foreman.assign("noop") for _ in range(50)][-1])
        foreman.assign("nap", 30)
        await foreman.until(lambda: foreman.pool.window == 2)

    drive(scenario, slots=2)


@pytest.mark.parametrize("megabytes", [1, 20])
def test_large_payloads_and_results_come_across(drive: Drive, megabytes: int) -> None:
    data = bytes(range(256)) * (megabytes << 12)

    async def scenario(foreman: Foreman) -> None:
        assert await foreman.do("echo", data) == data

    drive(scenario)


def test_a_result_over_the_limit_is_refused_where_it_was_made(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        assert await foreman.do("echo", bytes(900)) == bytes(900)
        report = await foreman.outcome(foreman.assign("echo", bytes(1001)))

        assert report.error is not None
        assert report.error.kind is ErrorKind.REFUSED
        assert "handler 'echo': returned 1004 bytes, allowed are 1000" in report.error.message

    drive(scenario, result_limit=1000)


def test_bad_arguments_and_unknown_types_are_refused(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        bad = await foreman.outcome(foreman.assign("add", "one"))
        unknown = await foreman.outcome(foreman.assign("subtract", 1))
        unsendable = await foreman.outcome(foreman.assign("give_object"))

        assert bad.error is not None
        assert bad.error.kind is ErrorKind.REFUSED
        assert "handler 'add': parameter 'x'" in bad.error.message
        assert unknown.error is not None
        assert unknown.error.kind is ErrorKind.REFUSED
        assert "add_later" in unknown.error.message
        assert unsendable.error is not None
        assert unsendable.error.message.startswith("handler 'give_object': returned a object")

    drive(scenario)


def test_an_exception_has_the_handlers_traceback_and_retry_policy(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        report = await foreman.outcome(foreman.assign("fail", "too green"))

        assert report.error is not None
        assert report.error.kind is ErrorKind.EXCEPTION
        assert report.error.message == "ValueError: too green"
        first_frame = report.error.traceback.splitlines()[1]
        assert "pool_app.py" in first_frame
        assert report.retry == Retry(limit=3)

    drive(scenario)


@pytest.mark.parametrize(
    ("job_type", "arguments", "message"),
    [
        ("fail_unprintably", {}, "Weird: (its message can't be printed)"),
        ("leave_by", {"code": 3, "how": "sys.exit"}, "SystemExit: 3"),
        ("leave_async", {"code": 3}, "SystemExit: 3"),
        ("out_of_memory", {}, "MemoryError: out of memory"),
    ],
)
def test_no_exception_ends_the_child(
    drive: Drive, job_type: str, arguments: dict[str, object], message: str
) -> None:
    async def scenario(foreman: Foreman) -> None:
        pids = foreman.pids()
        report = await foreman.outcome(foreman.assign(job_type, **arguments))

        assert report.error is not None
        assert (report.error.kind, report.error.message) == (ErrorKind.EXCEPTION, message)
        assert await foreman.do("add_later", 1, 1) == 2
        assert foreman.pids() == pids

    drive(scenario)


def test_prints_logs_and_subprocess_output_are_kept_with_their_job(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        report = await foreman.outcome(foreman.assign("say", "hello"))
        silent = await foreman.outcome(foreman.assign("noop"))

        assert report.log.startswith("hello\n")
        for part in ("no newline", "INFO pool: logged", "from a subprocess\n"):
            assert part in report.log
        assert silent.log == ""

    drive(scenario)


def test_of_a_long_log_the_beginning_and_the_end_are_kept(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        report = await foreman.outcome(foreman.assign("flood", 2))

        assert report.log.startswith("the beginning\n")
        assert report.log.endswith("the end\n")
        assert "bytes left out" in report.log
        assert len(report.log) < (64 << 10) + 100

    drive(scenario)


def test_output_without_end_does_not_fill_the_memory(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign("flood", 4000)
        slot = foreman.pool._supervisor.slots[0]
        sizes = [0]

        def was_cut_back() -> bool:
            sizes.append(slot.run_log.size)
            return max(sizes) > 8 << 20 and 0 < sizes[-1] < sizes[-2]

        await foreman.until(was_cut_back)
        foreman.pool.cancel([job])
        report = await foreman.outcome(job)

        assert report.log.startswith("the beginning\n")

    drive(scenario)


def test_progress_is_seen_while_the_handler_runs_and_the_last_of_it_always(
    drive: Drive, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    async def scenario(foreman: Foreman) -> None:
        slow = foreman.assign("report_progress", 1000, str(gate))
        await foreman.until(lambda: foreman.advances and foreman.advances[-1].done == 1000)
        assert slow.job_id not in foreman.reports
        gate.touch()
        await foreman.outcome(slow)
        quick = foreman.assign("report_progress", 1000)
        await foreman.outcome(quick)

        assert {it.total for it in foreman.advances} == {1000}
        assert (foreman.advances[-1].job_id, foreman.advances[-1].done) == (quick.job_id, 1000)
        assert len(foreman.advances) < 100, "not each step is told"

    drive(scenario)


def test_a_child_that_is_stuck_holds_up_nobody(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        foreman.assign("nap", 60)
        jobs = [foreman.assign("add", n, 1) for n in range(500)]

        assert [await foreman.result(job) for job in jobs] == list(range(1, 501))
        assert foreman.pool.running() == 1

    drive(scenario, slots=2)
