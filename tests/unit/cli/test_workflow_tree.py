"""A run as a tree: each job once, with its time, and those of many parents named at the others."""

from __future__ import annotations

from shunter.cli.workflows import tree_lines
from shunter.model.job import Execution, Job, Status
from shunter.model.run_view import RunView
from shunter.model.workflow import JobEdge


def a_run(**after: str) -> RunView:
    """A run of completed jobs, each with the names of those it waits for."""
    run = Execution(worker_id="w", sent=1.0, started=1.0, ended=1.5)
    fields = {"created": 0.0, "updated": 2.0, "status": Status.COMPLETED, "execution": run}
    jobs = [Job(id=name, type="t", workflow="etl", run="r", **fields) for name in after]
    edges = [JobEdge(name, parent) for name, parents in after.items() for parent in parents.split()]
    return RunView("r", jobs, edges)


def test_a_job_behind_many_has_a_line_at_the_first_and_is_named_beside_the_others() -> None:
    lines = list(tree_lines(a_run(day="", one="day", two="day", last="one two"), now=9.0))

    assert lines == [
        "run r of etl: 4 completed",
        "t day  completed, 0.50 s",
        "├─ t one  completed, 0.50 s",
        "│  └─ t last  completed, 0.50 s",
        "└─ t two  completed, 0.50 s → t last (see above)",
    ]


def test_several_that_were_shown_before_are_counted_beside_a_job() -> None:
    lines = list(tree_lines(a_run(one="", two="", x="one two", y="one two"), now=9.0))

    assert lines[-1] == "t two  completed, 0.50 s → t x and 1 more (see above)"


def test_what_was_shown_before_has_a_line_beside_what_was_not() -> None:
    lines = list(tree_lines(a_run(one="", two="", x="one two", y="two"), now=9.0))

    assert lines[-2:] == ["├─ t x (see above)", "└─ t y  completed, 0.50 s"]
