"""A worker behind HTTP leaves no job running, and none behind."""

from __future__ import annotations

import os
import signal

from system.http_worker.conftest import StartWorker
from system.http_worker.fake_dispatcher import FakeDispatcher
from system.witness import runs_in
from system.yard import WITNESS_APP, Process, Yard, is_alive, until


def children_of(process: Process) -> list[int]:
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as listed:
        return [int(pid) for pid in listed.read().split()]


def test_at_sigterm_running_jobs_end_and_are_reported_before_it_resigns(
    dispatcher: FakeDispatcher, start_worker: StartWorker, yard: Yard
) -> None:
    worker = start_worker(dispatcher)
    dispatcher.offer("last", "work", 5, 1.5)
    until(lambda: "last" in runs_in(yard.witness))

    worker.signal(signal.SIGTERM)

    until(lambda: worker.logged(event="resigning"))
    assert dispatcher.offer("too-late", "add", 1, 2).status_code == 503
    assert dispatcher.look("last") == 200
    assert dispatcher.health_check().status_code == 200
    assert worker.exit_code() == 0

    assert dispatcher.log == ["register", "report", "resign"]
    assert dispatcher.farewells == ["w-fake"]
    assert dispatcher.report_on("last")["result"] == 5


def test_at_sigterm_what_does_not_end_is_stopped_before_it_resigns(
    dispatcher: FakeDispatcher, start_worker: StartWorker, yard: Yard
) -> None:
    alive_at_farewell: list[int] = []
    dispatcher.on_farewell = lambda: alive_at_farewell.extend(filter(is_alive, children))
    worker = start_worker(dispatcher, worker__grace_seconds=0.5)
    dispatcher.offer("endless", "work", 1, 60.0)
    until(lambda: "endless" in runs_in(yard.witness))
    children = children_of(worker)
    assert children

    assert worker.terminate() == 0

    assert dispatcher.log == ["register", "resign"]
    assert alive_at_farewell == []
    (line,) = worker.logged(event="resigned")
    assert line["returned_jobs"] == ["endless"]


def test_at_sigterm_it_leaves_in_time_though_no_dispatcher_is_there(
    dispatcher: FakeDispatcher, start_worker: StartWorker
) -> None:
    worker = start_worker(dispatcher)
    dispatcher.will_answer(*[503] * 1000)
    dispatcher.offer("unheard", "add", 1, 2)
    dispatcher.report_on("unheard")
    dispatcher.stop()

    assert worker.terminate() == 0


def test_kill_9_leaves_no_children(
    dispatcher: FakeDispatcher, start_worker: StartWorker, yard: Yard
) -> None:
    worker = start_worker(dispatcher, slots=2)
    dispatcher.offer("running", "stubborn")
    until(lambda: "running" in runs_in(yard.witness))
    children = children_of(worker)
    assert len(children) == 2 + 1, "two children and the watchdog"

    worker.kill()

    until(lambda: not any(map(is_alive, children)))


def test_a_worker_that_can_start_no_more_children_resigns_and_says_why(
    dispatcher: FakeDispatcher, yard: Yard
) -> None:
    flag = yard.folder / "broken"
    app = yard.folder / "breaking.py"
    app.write_text(
        "import os\n"
        "from shunter import App\n"
        f"if os.path.exists({str(flag)!r}):\n"
        "    os._exit(7)\n"
        "app = App()\n"
        "@app.job\n"
        "def die():\n"
        "    os._exit(1)\n"
    )
    words = ["worker", "--http", "--app", str(app), "--dispatcher", dispatcher.url]
    worker = yard.process([*words, "--max-jobs", "1"], "breaking")
    assert dispatcher.health_check().status_code == 200
    flag.touch()

    dispatcher.offer("last", "die")

    assert worker.exit_code() == 2
    assert "could not start" in worker.said()
    assert dispatcher.report_on("last")["error"]["kind"] == "lost"
    assert dispatcher.farewells == ["w-fake"]


def test_it_dies_with_the_process_that_started_it(dispatcher: FakeDispatcher, yard: Yard) -> None:
    words = ["worker", "--http", "--app", WITNESS_APP, "--dispatcher", dispatcher.url]
    worker = yard.process([*words, "--parent", str(os.getppid())], "orphan")

    assert worker.exit_code() != 0
