"""Children that die, leave or can't start, and a parent that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shunter.errors import AppError
from shunter.model.job import ErrorKind
from shunter.model.retry import Retry
from shunter.worker.pool.process_pool import PoolSettings
from system.pool.foreman import APP, PATIENCE, Drive, Foreman, is_running, state_of


def test_a_job_whose_child_is_killed_from_outside_is_lost_with_the_cause(
    drive: Drive, tmp_path: Path
) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        job = foreman.assign("deaf", str(marker))
        await foreman.begun(job, marker)
        os.kill(foreman.pids()[0], signal.SIGKILL)
        report = await foreman.outcome(job)

        assert report.error is not None
        assert report.error.kind is ErrorKind.LOST
        assert report.error.message == "the process was ended by SIGKILL"
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario)


@pytest.mark.parametrize(
    ("job_type", "arguments", "cause"),
    [
        ("leave_by", {"code": 7, "how": "os._exit"}, "the process exited by itself with code 7"),
        ("leave_by", {"code": 0, "how": "os._exit"}, "the process exited by itself with code 0"),
        ("segfault", {}, "the process was ended by SIGSEGV"),
        ("say_and_die", {"text": "last words"}, "the process was ended by SIGKILL"),
    ],
)
def test_a_job_that_takes_its_process_down_is_lost_and_the_next_is_done(
    drive: Drive, job_type: str, arguments: dict[str, object], cause: str
) -> None:
    async def scenario(foreman: Foreman) -> None:
        report = await foreman.outcome(foreman.assign(job_type, **arguments))

        assert report.error is not None
        assert (report.error.kind, report.error.message) == (ErrorKind.LOST, cause)
        assert ("last words" in report.log) == (job_type == "say_and_die")
        assert ("Segmentation fault" in report.log) == (job_type == "segfault")
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario)


def test_a_child_that_died_idle_is_replaced_and_loses_nothing(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        (before,) = foreman.pids()
        os.kill(before, signal.SIGKILL)
        while is_running(before):
            time.sleep(0.001)
        jobs = [foreman.assign("add", n, 0) for n in range(50)]

        assert [await foreman.result(job) for job in jobs] == list(range(50))
        assert before not in foreman.pids()

    drive(scenario)


def test_a_job_taken_from_the_queue_by_a_child_that_died_before_it_could_say_so_is_lost(
    drive: Drive,
) -> None:
    async def scenario(foreman: Foreman) -> None:
        taker, other = foreman.pool._supervisor.slots
        for slot in (taker, other):
            os.kill(slot.pid, signal.SIGSTOP)
        await foreman.until(lambda: state_of(taker.pid) == state_of(other.pid) == "T")
        vanished = foreman.assign("add", 1, 1)
        foreman.pool._queue.drain()  # as a child does that dies in the next instant
        kept = foreman.assign("add", 2, 2)
        os.kill(taker.pid, signal.SIGKILL)
        await foreman.until(lambda: taker.pid not in foreman.pids())
        replacement = next(slot for slot in foreman.pool._supervisor.slots if slot is not other)
        await foreman.until(lambda: replacement.is_ready)

        assert await foreman.result(kept) == 4
        await asyncio.sleep(0.25)
        assert vanished.job_id not in foreman.reports, "a stopped survivor may still have it"

        os.kill(other.pid, signal.SIGCONT)
        report = await foreman.outcome(vanished)
        assert report.error is not None
        assert report.error.kind is ErrorKind.LOST
        assert report.error.message == "the process was ended by SIGKILL"

    drive(scenario, slots=2)


def test_children_killed_at_random_under_load_end_every_job_exactly_once(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        jobs = []
        for round_number in range(12):
            jobs += [foreman.assign("add", n, 0) for n in range(300)]
            await asyncio.sleep(0.003 * (round_number % 4))
            await foreman.until(foreman.ready)
            os.kill(foreman.ready()[-1], signal.SIGKILL)
        for job in jobs:
            await foreman.outcome(job)

        errors = [report.error for report in foreman.reports.values() if report.error]
        assert {error.kind for error in errors} <= {ErrorKind.LOST}
        assert len(errors) <= 12
        assert len(foreman.reports) == len(jobs)

    drive(scenario, slots=2)


def test_a_child_is_replaced_after_so_many_jobs(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        jobs = [foreman.assign("who") for _ in range(12)]
        pids = [(await foreman.result(job))[3] for job in jobs]

        assert [len(set(pids[at : at + 5])) for at in (0, 5, 10)] == [1, 1, 1]
        assert len(set(pids)) == 3

    drive(scenario, max_jobs_per_child=5)


def test_a_child_is_replaced_when_it_has_grown_too_large(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        small = await foreman.do("hoard", 1)
        await asyncio.sleep(0.25)
        assert await foreman.do("hoard", 200) == small
        assert await foreman.do("hoard", 1) != small

    drive(scenario, max_child_megabytes=150)


def test_an_app_that_cannot_be_imported_by_a_child_fails_the_start_with_its_traceback(
    tmp_path: Path,
) -> None:
    bad = tmp_path / "bad_app.py"
    bad.write_text("raise RuntimeError('not today')")

    async def main() -> None:
        foreman = Foreman(PoolSettings(slots=2), spec=str(bad))
        with pytest.raises(AppError, match=r"(?s)exited by itself with code 3.*not today"):
            await foreman.pool.start()
        assert foreman.pids() == []

    asyncio.run(main())


@pytest.mark.parametrize("slots", [1, 2])
def test_children_that_are_killed_at_their_first_start_are_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slots: int
) -> None:
    monkeypatch.setattr("shunter.worker.pool.starts.AFTER_FAILURE", Retry(delay=0.05))
    app = tmp_path / "doomed_app.py"
    app.write_text(
        "import os\n"
        f"log = {str(tmp_path / 'starts')!r}\n"
        "with open(log, 'a') as file: file.write('x')\n"
        "if os.path.getsize(log) <= 3: os.kill(os.getpid(), 9)\n"
        f"exec(open({APP.removesuffix(':app')!r}).read())"
    )

    async def main() -> None:
        foreman = Foreman(PoolSettings(slots=slots), spec=f"{app}:app")
        await foreman.pool.start()

        assert await foreman.do("add", 1, 1) == 2
        assert (tmp_path / "starts").stat().st_size >= 4
        await foreman.pool.stop(grace=0.0)

    asyncio.run(main())


def test_children_that_always_die_at_their_start_fail_it_with_what_they_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shunter.worker.pool.starts.AFTER_FAILURE", Retry(delay=0.02))
    app = tmp_path / "doomed_app.py"
    app.write_text("import os\nprint('no luck', flush=True)\nos.kill(os.getpid(), 9)\n")

    async def main() -> None:
        foreman = Foreman(PoolSettings(slots=2), spec=f"{app}:app")
        with pytest.raises(AppError, match=r"(?s)ended by SIGKILL.*no luck"):
            await foreman.pool.start()
        assert foreman.pids() == []

    asyncio.run(main())


def test_a_pool_works_with_the_children_it_has_while_others_fail_to_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits = Retry(delay=0.01, max_delay=0.02)
    monkeypatch.setattr("shunter.worker.pool.starts.AFTER_FAILURE", waits)
    app = tmp_path / "lonely_app.py"
    app.write_text(
        "import os\n"
        f"os.close(os.open({str(tmp_path / 'taken')!r}, os.O_CREAT | os.O_EXCL))\n"
        f"exec(open({APP.removesuffix(':app')!r}).read())"
    )

    async def main() -> None:
        foreman = Foreman(PoolSettings(slots=2), spec=f"{app}:app")
        await foreman.pool.start()
        seen = set(foreman.pids())
        while len(seen) < 10:
            seen.update(foreman.pids())
            await asyncio.sleep(0.005)

        assert await foreman.do("add", 1, 1) == 2
        assert (foreman.pool.slots, foreman.pool.fatal) == (1, None)
        await foreman.pool.stop(grace=0.0)

    asyncio.run(main())


def test_children_that_stop_starting_are_no_crash_loop_but_the_end_of_the_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shunter.worker.pool.starts.AFTER_FAILURE", Retry(delay=0.01))
    app = tmp_path / "fading_app.py"
    app.write_text(f"exec(open({APP.removesuffix(':app')!r}).read())")

    async def main() -> None:
        foreman = Foreman(PoolSettings(slots=1), spec=f"{app}:app")
        await foreman.pool.start()
        app.write_text("raise RuntimeError('gone bad')")
        first = foreman.pids()[0]
        starts = {first}
        os.kill(first, signal.SIGKILL)
        await foreman.until(lambda: first not in foreman.pids())
        waiting = foreman.assign("noop")
        while foreman.pool.fatal is None:
            starts.update(foreman.pids())
            await asyncio.sleep(0.002)

        assert "gone bad" in str(foreman.pool.fatal)
        assert len(starts) == 1 + 5
        assert await foreman.pool.stop(grace=0.0) == [waiting]
        assert foreman.pids() == []

    asyncio.run(main())


PARENT = """
import asyncio, sys
from shunter.app import load_app, payload_of
from shunter.wire.messages import Assignment
from shunter.worker.pool.process_pool import ProcessPool, PoolSettings

async def main():
    spec, marker = sys.argv[1:]
    pool = ProcessPool(spec, load_app(spec), PoolSettings(slots=2), on_output=lambda: None)
    await pool.start()
    pool.give([Assignment("a", 1, "stubborn", payload_of(marker), None, None)])
    print(*(slot.pid for slot in pool._supervisor.slots), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_children_die_with_their_parent_even_when_it_is_killed(tmp_path: Path) -> None:
    marker = tmp_path / "began"
    command = [sys.executable, "-c", PARENT, APP, str(marker)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        deadline = time.monotonic() + PATIENCE
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        assert [is_running(pid) for pid in pids] == [True, True]
        parent.kill()
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.005)

    assert [is_running(pid) for pid in pids] == [False, False]
