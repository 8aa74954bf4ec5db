"""What a dispatcher is told of a run's end, in a small packet."""

from __future__ import annotations

import pytest

from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Report
from shunter.wire.udp.methods import CompletedTask, Packed, PerformTask
from shunter.wire.udp.packets import PacketReason, request
from shunter.worker.udp.completions import (
    MESSAGE_CHARACTERS,
    after_refusal,
    completion,
    failed,
    shown_failure,
    smaller,
)

TASK = PerformTask(task_id=5, attempt=3)


def test_a_completion_without_a_result_is_the_seed_s() -> None:
    completed = completion(PerformTask(task_id=5), Report("task:5", 1, result=b"\xc0"))

    assert request(completed, 1598326709000) == (
        b'{"method":"completed_task","params":{"task_id":5},'
        b'"packet_type":1,"transmission_id":1598326709000}'
    )


def test_a_result_goes_back_with_the_task_s_own_names() -> None:
    completed = completion(TASK, Report("task:5", 3, result=b"\xc4\x02ab"))

    assert completed == CompletedTask(task_id=5, attempt=3, result=Packed(b"\xc4\x02ab"))
    assert b'"result":{"$bytes":"YWI="}' in request(completed, 1)


def test_a_failure_is_told_by_its_message() -> None:
    failure = Failure(ErrorKind.EXCEPTION, "ValueError: no", "Traceback:\n  x\nValueError: no\n")

    completed = completion(TASK, Report("task:5", 3, error=failure))

    assert completed == CompletedTask(task_id=5, attempt=3, error="ValueError: no")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Failure(ErrorKind.EXCEPTION, "no", "Traceback\n  y\nValueError: n"), "no [ValueError: n]"),
        (
            Failure(ErrorKind.TIMEOUT, "too long", "", "SIGKILL"),
            "timeout: too long (ended by SIGKILL)",
        ),
        (Failure(ErrorKind.LOST, "the process died"), "lost: the process died"),
    ],
)
def test_what_is_not_in_the_message_is_added(failure: Failure, said: str) -> None:
    assert shown_failure(failure) == said


def test_a_long_message_is_cut() -> None:
    error = failed(TASK, "x" * 5000).error

    assert error is not None
    assert len(error) == MESSAGE_CHARACTERS
    assert error.endswith("x...")


def test_a_result_that_is_too_large_becomes_an_error_that_says_so() -> None:
    found = smaller(TASK, CompletedTask(task_id=5, result=Packed(b"\x01")), "5000 bytes")

    assert found is not None
    assert found.result is None
    assert found.error is not None
    assert "5000 bytes" in found.error
    assert found.attempt == 3


def test_an_error_that_is_too_large_gets_shorter_until_nothing_is_left_to_cut() -> None:
    completed: CompletedTask | None = failed(TASK, "\u044f" * 5000)
    lengths = []

    while completed is not None:
        assert completed.error is not None
        lengths.append(len(completed.error))
        completed = smaller(TASK, completed, "too large")

    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == len(set(lengths)) > 3


def test_a_result_that_the_dispatcher_can_t_read_becomes_an_error_once() -> None:
    completed = CompletedTask(task_id=5, result=Packed(b"\x01"))

    instead = after_refusal(TASK, completed, PacketReason.FIELDS, "found a list")

    assert instead is not None
    assert instead.error == "the dispatcher can't read the result: found a list"
    assert after_refusal(TASK, instead, PacketReason.FIELDS, "again") is None


def test_a_refusal_for_another_reason_is_final() -> None:
    assert after_refusal(TASK, CompletedTask(task_id=5), "stale", "another has it") is None


def test_how_long_it_took_goes_along_and_is_the_first_to_be_left_out() -> None:
    report = Report("task:5", 3, result=b"\x01", waited=0.1234567, ran=2.5)

    completed = completion(TASK, report)

    assert (completed.waited, completed.ran) == (0.123457, 2.5)
    assert completion(PerformTask(task_id=5), report).ran is None
    assert smaller(TASK, completed, "too large") == CompletedTask(
        task_id=5, attempt=3, result=Packed(b"\x01")
    )
