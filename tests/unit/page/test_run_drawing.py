"""Runs of workflows as pictures: layers from left to right, bounded, and one word for a run."""

from __future__ import annotations

import pytest

from shunter.model.job import Job, Status
from shunter.model.run_view import RunView
from shunter.model.workflow import JobEdge
from shunter.page.run_drawing import drawn_run, state_of


def job(name: str, status: Status = Status.COMPLETED) -> Job:
    return Job(id=name, type="t", created=1.0, updated=1.0, status=status)


def view(edges: dict[str, tuple[str, ...]]) -> RunView:
    """A run by what each job waits for."""
    waits = [JobEdge(child, parent) for child, parents in edges.items() for parent in parents]
    return RunView("r", [job(name) for name in edges], waits)


def test_a_job_stands_right_of_all_that_it_waits_for() -> None:
    picture = drawn_run(view({"a": (), "b": ("a",), "c": ("a", "b"), "alone": ()}))
    at = {box.job.id: box.x for box in picture.boxes}
    assert at["a"] == at["alone"] < at["b"] < at["c"]
    assert len(picture.lines) == 3


def test_a_wide_layer_is_cut_and_the_rest_is_counted_by_status() -> None:
    run = RunView(
        "r", [job(f"j{n}", Status.FAILED if n == 9 else Status.QUEUED) for n in range(10)], []
    )
    picture = drawn_run(run, most=4)
    assert len(picture.boxes) == 4
    assert [it.text for it in picture.rests] == ["and 6 more: 5 queued, 1 failed"]


def test_a_long_run_is_cut_and_an_edge_to_what_is_not_drawn_is_left_out() -> None:
    chain = {f"j{n}": (f"j{n - 1}",) if n else () for n in range(10)}
    picture = drawn_run(view(chain), columns=3)
    assert (len(picture.boxes), len(picture.lines), picture.later) == (3, 2, 7)


@pytest.mark.parametrize(
    ("counts", "unneeded", "word"),
    [
        ({Status.COMPLETED: 3}, None, "completed"),
        ({Status.COMPLETED: 3, Status.FAILED: 1, Status.CANCELLED: 1}, None, "failed"),
        ({Status.FAILED: 1, Status.WAITING: 2}, None, "waiting"),
        ({Status.COMPLETED: 3, Status.CANCELLED: 1}, None, "ended"),
        ({Status.COMPLETED: 3, Status.CANCELLED: 1}, 1, "completed"),
        ({Status.COMPLETED: 3, Status.CANCELLED: 2}, 1, "cancelled"),
        ({Status.CANCELLED: 2}, None, "cancelled"),
    ],
)
def test_a_run_stands_as_its_jobs_do(
    counts: dict[Status, int], unneeded: int | None, word: str
) -> None:
    assert state_of(counts, unneeded=unneeded) == word
