"""What a dispatcher is told of a run's end, in a small packet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shunter.model.job import ErrorKind, Failure
from shunter.model.journal import LiveLog
from shunter.model.report import Report
from shunter.model.retry import Retry
from shunter.wire.udp.methods import CompletedTask, Packed, PerformTask, TaskRetry
from shunter.wire.udp.packets import PacketReason, request
from shunter.worker.udp.completions import (
    MESSAGE_CHARACTERS,
    after_refusal,
    completion,
    failed,
    shown_failure,
    smaller,
    task_logs,
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


def test_the_end_of_the_log_goes_along_and_gets_shorter_before_anything_else() -> None:
    log = "first\n" + "line\n" * 100 + "last\n"
    report = Report("task:5", 3, result=b"\x01", ran=2.5, waited=0.5, log=log)

    completed = completion(TASK, report, most_log=200)

    assert completed.log is not None
    assert completed.log.endswith("line\nlast\n")
    assert (completed.start or 0) + len(completed.log) == len(log)
    assert completion(PerformTask(task_id=5), report, most_log=200).log is None
    assert completion(TASK, replace(report, log="<sealed:AAAA>"), most_log=200).log is None
    shorter = smaller(TASK, completed, "too large")
    assert shorter is not None
    assert shorter.log is not None
    assert len(shorter.log) < len(completed.log)
    assert shorter.log.endswith("last\n")
    while shorter is not None and shorter.log is not None:
        assert (shorter.start or 0) + len(shorter.log) == len(log)
        shorter = smaller(TASK, shorter, "too large")
    assert shorter == completion(TASK, replace(report, log=""))


def test_a_log_is_told_in_ever_smaller_parts_until_one_fits() -> None:
    told = list(task_logs(TASK, LiveLog(1000, "line\n" * 20 + "last\n")))

    assert len(told) > 3
    for each in told:
        assert (each.task_id, each.attempt) == (5, 3)
        assert (each.start or 0) + len(each.log) == 1105
        assert "last\n".endswith(each.log[-5:])
    assert len(list(task_logs(TASK, LiveLog(0, "<sealed:AAAA>")))) == 1
    assert list(task_logs(TASK, LiveLog(0, ""))) == []


def test_how_long_it_took_goes_along_and_is_the_first_to_be_left_out() -> None:
    report = Report("task:5", 3, result=b"\x01", waited=0.1234567, ran=2.5)

    completed = completion(TASK, report)

    assert (completed.waited, completed.ran) == (0.123457, 2.5)
    assert completion(PerformTask(task_id=5), report).ran is None
    assert smaller(TASK, completed, "too large") == CompletedTask(
        task_id=5, attempt=3, result=Packed(b"\x01")
    )


def test_a_failure_that_hooks_were_told_of_says_so() -> None:
    told = Failure(ErrorKind.EXCEPTION, "no", is_told=True)

    assert completion(TASK, Report("task:5", 3, error=told)).is_told
    assert completion(TASK, Report("task:5", 3, error=Failure(told.kind, "no"))).is_told is None


@pytest.mark.parametrize(
    ("kind", "is_told"), [(ErrorKind.EXCEPTION, True), (ErrorKind.TIMEOUT, False)]
)
def test_what_a_handler_wants_is_told_with_errors_that_another_try_may_mend(
    kind: ErrorKind, is_told: bool
) -> None:
    policy = Retry(limit=3, delay=0.5, never=(OSError,))
    completed = completion(TASK, Report("task:5", 3, error=Failure(kind, "no"), retry=policy))

    assert completed.retry == (TaskRetry(limit=3, delay=0.5) if is_told else None)
