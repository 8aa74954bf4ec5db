"""One calculator: a task at a time, none twice, busy until the completion is confirmed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shunter.model.parents import NOT_SENT
from shunter.model.report import Held
from shunter.wire.messages import Assignment
from shunter.wire.udp.methods import Heartbeat, Packed, PerformTask
from shunter.wire.udp.packets import notice
from shunter.worker.udp.calculator_session import (
    AlreadyHere,
    Begin,
    CalculatorSession,
    RefuseTask,
    run_name,
)

TASK = PerformTask(task_id=5, type="add", payload=Packed(b"\x92\x01\x02"), attempt=1, timeout=3.0)


def made(*handlers: str) -> CalculatorSession:
    return CalculatorSession(handlers or ("add", "fail"), heartbeat=1.0)


def declined(decision: object) -> str:
    assert isinstance(decision, RefuseTask), decision
    return decision.code


def test_a_free_seat_begins_what_it_is_offered_and_is_busy() -> None:
    session = made()

    decision = session.offered(TASK)

    assert decision == Begin(
        Assignment("task:5", 1, "add", b"\x92\x01\x02", 3.0, None, parents=NOT_SENT)
    )
    assert session.status == "busy"
    assert session.run == Held("task:5", 1)


def test_the_task_that_is_here_is_not_begun_again() -> None:
    session = made()
    session.offered(TASK)

    assert session.offered(TASK) == AlreadyHere()


@pytest.mark.parametrize(
    "other",
    [
        PerformTask(task_id=6, type="add", attempt=1),
        PerformTask(task_id=5, type="add", attempt=2),
        PerformTask(task_id="5", type="add", attempt=1),
    ],
)
def test_while_a_task_is_here_every_other_is_declined(other: PerformTask) -> None:
    session = made()
    session.offered(TASK)

    assert declined(session.offered(other)) == "busy"
    assert session.task == TASK


def test_the_next_task_stands_for_a_confirmation_that_was_lost() -> None:
    session = made()
    other = PerformTask(task_id=6, type="add", attempt=1)
    session.offered(TASK)
    assert not session.is_confirmed_by(other), "the task is under way: the dispatcher is mistaken"

    session.ended(now=1.0)

    assert session.is_confirmed_by(other)
    assert not session.is_confirmed_by(TASK), "that is a resend"


def test_a_seat_is_free_again_when_the_completion_is_settled() -> None:
    session = made()
    session.offered(TASK)

    session.settled()

    assert session.status == "ready"
    assert isinstance(session.offered(PerformTask(task_id=6, type="add")), Begin)


def test_a_seat_that_leaves_is_busy_and_takes_nothing() -> None:
    session = made()

    session.leave()

    assert session.status == "busy"
    assert declined(session.offered(TASK)) == "busy"


def test_a_run_that_another_seat_does_is_declined() -> None:
    session = made()

    assert declined(session.offered(TASK, under_way={Held("task:5", 1)})) == "busy"
    assert session.status == "ready"
    assert isinstance(session.offered(TASK, under_way={Held("task:5", 2)}), Begin)


def test_a_type_that_nobody_does_here_is_declined_by_name() -> None:
    decision = made("add").offered(PerformTask(task_id=1, type="subtract"))

    assert decision == RefuseTask("type", "this calculator does add; send one of these", "type")


@pytest.mark.parametrize(
    ("handlers", "begun"),
    [(("add",), "add"), (("default", "add"), "default"), (("add", "fail"), None)],
)
def test_a_task_without_a_type_is_for_the_default_or_the_only_handler(
    handlers: tuple[str, ...], begun: str | None
) -> None:
    decision = made(*handlers).offered(PerformTask(task_id=1))

    if begun is None:
        assert declined(decision) == "type"
    else:
        assert isinstance(decision, Begin)
        assert decision.run.type == begun
        assert decision.run.payload == b"\xc0"


def test_heartbeats_are_due_at_first_and_then_now_and_again() -> None:
    session = made()
    assert session.is_heartbeat_due(now=100.0)

    assert session.heartbeat(now=100.0) == Heartbeat(status="ready", handlers=("add", "fail"))

    assert not session.is_heartbeat_due(now=100.9)
    assert session.is_heartbeat_due(now=101.0)


def test_a_change_is_told_if_it_lasts_from_one_look_to_the_next() -> None:
    session = made()
    session.heartbeat(now=100.0)
    session.offered(TASK)

    assert not session.is_heartbeat_due(now=100.05)
    assert session.is_heartbeat_due(now=100.1)

    assert session.heartbeat(now=100.1).status == "busy"
    assert not session.is_heartbeat_due(now=100.15)


def test_tasks_that_are_over_at_once_need_no_heartbeats_but_the_usual() -> None:
    session = made()
    session.heartbeat(now=100.0)
    due = []

    for number in range(1, 21):
        session.offered(PerformTask(task_id=number, type="add"))
        due.append(session.is_heartbeat_due(now=100.0 + number / 20))
        session.settled()

    assert due == [False] * 19 + [True]


def test_nothing_is_said_right_behind_a_completion() -> None:
    session = made()
    session.heartbeat(now=100.0)
    session.offered(TASK)

    session.ended(now=101.0)

    assert not session.is_heartbeat_due(now=101.2)
    assert session.is_heartbeat_due(now=101.4)
    session.settled()
    assert session.is_heartbeat_due(now=101.4)


def test_the_heartbeat_of_one_that_does_the_default_is_the_seed_s() -> None:
    said = notice(made("default").heartbeat(now=0.0))

    assert said == b'{"method":"heartbeat","params":{"status":"ready"},"packet_type":0}'


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (PerformTask(task_id=5), Held("task:5", 1)),
        (PerformTask(task_id=5, attempt=0), Held("task:5", 0)),
        (PerformTask(task_id="5", attempt=3), Held("5", 3)),
        (PerformTask(task_id=5, job_id="01abc", attempt=2), Held("01abc", 2)),
    ],
)
def test_a_run_is_named_as_the_dispatcher_names_it_or_after_its_task(
    task: PerformTask, name: Held
) -> None:
    assert run_name(task) == name


def test_a_task_id_that_is_no_name_gets_one_that_is_always_the_same() -> None:
    one, other = (PerformTask(task_id=text) for text in ("../../etc", "../../tmp"))

    assert run_name(one).job_id.startswith("task:")
    assert "/" not in run_name(one).job_id
    assert run_name(one) == run_name(one) != run_name(other)


def test_a_seat_of_an_app_with_hooks_says_so_and_takes_calls_of_them_for_its_types() -> None:
    hooked = CalculatorSession(("add",), heartbeat=1.0, has_hooks=True)
    call = replace(TASK, type="final-failure/add")

    assert hooked.heartbeat(now=0.0) == Heartbeat(status="ready", handlers=("add",), has_hooks=True)
    assert isinstance(hooked.offered(call), Begin)
    assert declined(made("add").offered(call)) == "type"
    assert (
        declined(
            CalculatorSession(("add",), heartbeat=1.0, has_hooks=True).offered(
                replace(TASK, type="final-failure/fail")
            )
        )
        == "type"
    )


def test_only_a_task_that_may_be_tried_again_is_begun_as_one() -> None:
    once, again = made().offered(TASK), made().offered(replace(TASK, may_retry=True))

    assert isinstance(once, Begin)
    assert isinstance(again, Begin)
    assert once.run.retry is None
    assert again.run.retry is not None
    assert again.run.retry.limit > again.run.failures
