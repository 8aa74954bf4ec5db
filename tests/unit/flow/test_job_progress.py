"""What a flow job tells of its run, and how that is shown."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from rich.console import Console

from shunter import Flow
from shunter.cli.stages import shown
from shunter.flow.job_progress import FlowProgress, FlowProgressReporter, SafePoint
from shunter.flow.runners.port import BatchDone, CheckpointKept
from shunter.flow.runners.spark.session.tagged_jobs import TasksDone
from shunter.flow.runtime.report import StageReport


class Notes:
    """A job's context that keeps what it was told."""

    job_id = run_id = "j-1"
    attempt = 1

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, FlowProgress]] = []

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        self.told.append((done, total, msgspec.json.decode(note, type=FlowProgress)))

    def cancelled(self) -> bool:
        return False


class Run:
    """A flow of two stages under a clock that is set by hand."""

    def __init__(self) -> None:
        flow = Flow("small")
        flow.source([1, 2], name="numbers").sink(print, name="out")
        self.now, self.notes = 0.0, Notes()
        self.told = FlowProgressReporter(self.notes, flow, 1, clock=lambda: self.now)

    def reports(self, given: int) -> list[StageReport]:
        none: dict[str, Any] = {"failed": 0, "waiting": 0, "capacity": 0}
        return [
            StageReport("numbers", "source", taken=0, given=given, **none),
            StageReport("out", "sink", taken=given, given=0, **none),
        ]


def on_screen(found: FlowProgress) -> str:
    screen = io.StringIO()
    Console(file=screen, width=120).print(shown(found))
    return screen.getvalue()


def test_a_batch_on_spark_tells_of_its_tasks_until_its_events_are_counted() -> None:
    run = Run()
    run.now = 2.0
    run.told.tasks(TasksDone(3, 2, 8))

    ended = run.told.end(run.reports(2))

    [(done, total, first), (events, _, last)] = run.notes.told
    assert (done, total, first.tasks) == (3, 8, (3, 8))
    assert [(stage.name, stage.given) for stage in first.stages] == [("numbers", 0), ("out", 0)]
    assert [(edge.upstream, edge.downstream) for edge in first.edges] == [("numbers", "out")]
    assert "flow small, 2.0 s: 3 of 8 of Spark's tasks done" in on_screen(first)
    assert (events, last.tasks) == (2, None)
    assert [stage.per_second for stage in ended.stages] == [1.0, 1.0]


def test_the_last_checkpoint_and_the_last_batch_are_told_with_the_next_counts() -> None:
    run = Run()
    run.now = 4.0
    run.told.kept(CheckpointKept(2, 0.25))
    run.now = 5.0
    run.told.kept(BatchDone(7, 0.5, 30))
    assert run.notes.told == []
    run.now = 6.0
    ended = run.told.end(run.reports(2))

    [(_, _, last)] = run.notes.told
    assert last.checkpoint == ended.checkpoint == SafePoint(2, 4.0, 0.25)
    assert last.batch == ended.batch == SafePoint(7, 5.0, 0.5, 30)


def test_a_run_that_stands_still_is_pointed_out_until_it_moves() -> None:
    run = Run()
    for run.now, given in ((1.0, 5), (30.0, 5), (75.0, 5), (76.0, 6)):
        run.told.stages(run.reports(given))

    stills = [found.still for _, _, found in run.notes.told]
    assert stills == [None, None, 74.0, None]
    assert "it is running, but nothing has moved for 74 s" in on_screen(run.notes.told[2][2])


def test_tasks_of_spark_that_do_not_end_stand_still_too() -> None:
    run = Run()
    for run.now in (1.0, 62.0):
        run.told.tasks(TasksDone(3, 2, 8))

    assert run.notes.told[-1][2].still == 61.0
