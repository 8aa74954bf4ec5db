"""What a UDP client makes of notices, however often and in whatever order they come."""

from __future__ import annotations

import pytest

from shunter.client.tasks import NoticeVerdict, Tasks, outcome_of
from shunter.client.udp_client import task_value
from shunter.errors import JobError, JobFailed, NotPlaced
from shunter.wire.udp.methods import NotifyTask, Packed


def success(task_id: int | str = 5) -> NotifyTask:
    return NotifyTask(status="success", task_id=task_id)


def test_a_task_ends_once_and_later_notices_are_only_confirmed() -> None:
    tasks = Tasks()
    assert tasks.add(5)

    assert tasks.notified(success()) is NoticeVerdict.SETTLE
    assert tasks.notified(success()) is NoticeVerdict.AGAIN
    assert len(tasks) == 0


def test_a_task_that_is_under_way_is_not_added_twice() -> None:
    tasks = Tasks()
    tasks.add(5)

    assert not tasks.add(5)
    assert tasks.add("5")


def test_a_task_may_be_added_again_after_its_end() -> None:
    tasks = Tasks()
    tasks.add(5)
    tasks.notified(success())

    assert tasks.add(5)
    assert tasks.notified(success()) is NoticeVerdict.SETTLE


def test_notices_of_others_tasks_and_of_dropped_ones_are_left_alone() -> None:
    tasks = Tasks()
    tasks.add(5)
    tasks.drop(5)

    assert tasks.notified(success(5)) is NoticeVerdict.UNKNOWN
    assert tasks.notified(success(6)) is NoticeVerdict.UNKNOWN


def test_the_memory_of_ended_tasks_is_bounded() -> None:
    tasks = Tasks(max_ended=2)
    for task_id in (1, 2, 3):
        tasks.add(task_id)
        tasks.notified(success(task_id))

    assert [tasks.notified(success(n)) for n in (1, 2, 3)] == [
        NoticeVerdict.UNKNOWN,
        NoticeVerdict.AGAIN,
        NoticeVerdict.AGAIN,
    ]


def test_a_success_has_its_result() -> None:
    notice = NotifyTask(status="success", task_id=5, result=Packed(b"\x92\x01\x02"))

    assert task_value(outcome_of(notice)) == [1, 2]
    assert task_value(outcome_of(success())) is None


def test_a_success_whose_result_did_not_come_is_no_none() -> None:
    notice = NotifyTask(status="success", task_id=5, error="5,000 bytes")

    with pytest.raises(JobError, match="job 5: it is done, but its result did not come: 5,000"):
        task_value(outcome_of(notice))


def test_an_error_is_raised_with_its_message() -> None:
    notice = NotifyTask(status="error", task_id=5, error="ValueError: no")

    with pytest.raises(JobFailed, match="ValueError: no") as caught:
        task_value(outcome_of(notice))
    assert not isinstance(caught.value, NotPlaced)


def test_a_bare_error_says_where_to_look() -> None:
    with pytest.raises(JobFailed, match="look at its log"):
        task_value(outcome_of(NotifyTask(status="error", task_id=5)))


def test_a_task_that_nobody_took_has_an_error_of_its_own() -> None:
    with pytest.raises(NotPlaced, match="no worker took it in time; start one"):
        task_value(outcome_of(NotifyTask(status="failed_post", task_id=5)))
