"""What a dependent says of the parent it waited for in vain, and what a run may be called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from shunter import App, Client
from shunter.dispatch import dependents
from shunter.dispatch.arrivals import Arrivals
from shunter.dispatch.plan import Plan
from shunter.errors import JobRefused
from shunter.model.job import ErrorKind, Failure, Job, Status, When
from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.testing import Sandbox
from shunter.testing.sandbox_session import reaching

app = App()


@app.job
def work(name: str, fails: bool = False) -> str:
    if fails:
        raise ValueError(f"{name} can't")
    return name.upper()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(app) as sandbox:
        yield sandbox


def test_a_parent_that_failed_is_named_as_that(sandbox):
    with sandbox.workflow("f") as run:
        first = run.job("work", "first", fails=True)
        second = run.job("work", "second", after=first)
    sandbox.settle()

    assert f"its parent {first.id} failed" in sandbox.job(second.id).error.message


def test_of_two_parents_that_ended_together_the_one_that_failed_is_named():
    def a_job(name: str, status: Status, **changes: Any) -> Job:
        return Job(id=name, type="work", created=1.0, updated=1.0, status=status, **changes)

    failed = a_job("a", Status.FAILED, dependents=True)
    unneeded = Failure(ErrorKind.UNNEEDED, "not needed")
    skipped = a_job("b", Status.CANCELLED, dependents=True, error=unneeded)
    child = a_job("c", Status.WAITING, when=When.ALL_OK)
    edges = [JobEdge("c", "a"), JobEdge("c", "b")]
    standings = {"c": frozenset({ParentOutcome.FAILED, ParentOutcome.UNNEEDED})}
    queue, plan = dependents.DependentsQueue(), Plan(Arrivals(), 2.0)
    queue.offer([failed, skipped])
    assert queue.page() is not None

    queue.plan(edges, {}, {}, Plan(Arrivals(), 2.0))
    queue.settle(frozenset())
    queue.plan([], {"c": child}, standings, plan)

    assert "its parent a failed" in plan.changes["c"].job.error.message


def test_a_run_with_spaces_is_refused_with_what_to_send(sandbox):
    with pytest.raises(JobRefused) as refused:
        sandbox.with_options(run="two words").submit("work", "a")
    assert refused.value.field == "run"
    assert "found 'two words'; send 1 to 512 characters, no spaces" in str(refused.value)
    run = sandbox.workflow("w", run="nightly\n")
    with pytest.raises(JobRefused, match="no spaces or line breaks"), run:
        run.job("work", "a")


def test_what_an_older_version_stored_under_a_run_with_spaces_is_read_and_done_again(sandbox):
    old = sandbox.submit("work", "old")
    sandbox.run()
    stored = sandbox.store._jobs
    stored[old.id] = replace(stored[old.id], run="two words", workflow="w")
    with reaching(sandbox):
        client = Client()

    with client:
        assert list(client.runs.show("two words").jobs) == [old.id]
        again = sandbox.rerun(old.id)

    assert again.result() == "OLD"
    assert again.record.run == "two words"
