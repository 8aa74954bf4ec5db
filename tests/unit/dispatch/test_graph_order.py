"""Jobs of a graph are queued in the order in which they were submitted."""

from __future__ import annotations

import pytest

from shunter.dispatch.graph_intake import graph_of
from shunter.errors import JobRefused
from shunter.model.job import Job
from shunter.model.queue_order import rank
from shunter.model.scope import EVERYTHING
from shunter.model.submission import Submission

NOW = 1_763_460_000.25


def admitted(submission: Submission) -> Job:
    return Job(id=submission.id, type=submission.type, created=NOW, updated=NOW)


def chain(length: int) -> list[Submission]:
    """Jobs of which each waits for the one before it."""
    return [
        Submission(f"j{at}", "work", b"\xc0", after=(f"j{at - 1}",) if at else None)
        for at in range(length)
    ]


def test_each_job_of_a_graph_ranks_behind_those_submitted_before_it_and_none_is_of_the_future():
    graph = graph_of(chain(1_000), admitted, EVERYTHING)

    ranks = [rank(job) for job in graph.jobs]
    assert ranks == sorted(set(ranks))
    assert graph.jobs[-1].created == NOW


def test_a_job_that_waits_for_itself_is_refused():
    with pytest.raises(JobRefused, match="wait for each other"):
        graph_of([Submission("a", "work", b"\xc0", after=("a",))], admitted, EVERYTHING)
