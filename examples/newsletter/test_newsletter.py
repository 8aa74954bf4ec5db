"""Django's tasks on a sandbox: the real engine, in memory, on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone
from django_tasks import TaskResultStatus, default_task_backend
from django_tasks.exceptions import TaskResultDoesNotExist

from newsletter.letters.tasks import count_readers, deliver, greet, refuse
from newsletter.worker import app
from shunter.testing import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(app) as sandbox, sandbox.client() as client:
        default_task_backend.options["open_client"] = lambda: client
        yield sandbox
        del default_task_backend.options["open_client"]


def test_a_task_runs_and_returns_its_value(sandbox: Sandbox) -> None:
    result = greet.enqueue("Ada", greeting="Dear")
    assert result.status is TaskResultStatus.READY
    sandbox.run()
    result.refresh()

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "Dear Ada")
    assert (result.args, result.kwargs) == (["Ada"], {"greeting": "Dear"})
    assert result.started_at is not None
    assert result.finished_at is not None
    record = sandbox.job(result.id)
    assert (record.type, record.priority) == ("newsletter.letters.tasks.greet", 10)


def test_async_tasks_and_queues_work(sandbox: Sandbox) -> None:
    result = count_readers.enqueue(3)
    sandbox.run()
    result.refresh()

    assert result.return_value == 300  # type: ignore[comparison-overlap]  # Django's types
    assert sandbox.job(result.id).keys == {"queue": "bulk"}


def test_a_task_that_fails_is_tried_again(sandbox: Sandbox) -> None:
    result = deliver.enqueue("ada@example.org")
    sandbox.settle()
    result.refresh()

    assert result.return_value == {"address": "ada@example.org", "attempt": 3}
    assert result.attempts == 3


def test_a_task_that_keeps_failing_says_why(sandbox: Sandbox) -> None:
    result = refuse.enqueue()
    sandbox.settle()
    result.refresh()

    assert result.status is TaskResultStatus.FAILED
    assert result.errors[0].exception_class is ValueError
    assert "no such list" in result.errors[0].traceback


def test_a_task_waits_for_its_time(sandbox: Sandbox) -> None:
    now = timezone.now()
    sandbox.clock.advance_to(now.timestamp())
    result = greet.using(run_after=now + timedelta(hours=1)).enqueue("Ada")
    sandbox.advance(3500)
    result.refresh()
    assert result.status is TaskResultStatus.READY
    sandbox.advance(200)
    result.refresh()

    assert result.return_value == "Hello Ada"


def test_other_jobs_are_no_results(sandbox: Sandbox) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result("01m7v5s6q8xk3zj2f4c9dn0b1t")
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(sandbox.submit("no-task").id)
