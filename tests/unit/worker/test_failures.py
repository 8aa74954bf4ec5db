"""What a handler raises becomes a failure that fits into a record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shunter.context import Fail, Snooze
from shunter.errors import AppError
from shunter.handler.arounds import Around, call_through
from shunter.model.job import ErrorKind, Failure
from shunter.model.retry import Retry
from shunter.worker.failures import MESSAGE_LIMIT, TRACEBACK_LIMIT, failure_of


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def caught(error: BaseException) -> Failure:
    try:
        raise error
    except BaseException as raised:
        return failure_of(raised)


def test_an_exception_is_named_with_its_message_and_traceback() -> None:
    failure = caught(ValueError("too green"))

    assert failure.kind is ErrorKind.EXCEPTION
    assert failure.message == "ValueError: too green"
    assert "in caught" in failure.traceback
    assert failure.traceback.endswith("ValueError: too green\n")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_would_end_a_program_is_an_exception_of_the_handler(error: BaseException) -> None:
    assert caught(error).message.startswith(type(error).__name__)


def test_a_memory_error_says_that_memory_ran_out() -> None:
    assert caught(MemoryError()).message == "MemoryError: out of memory"


def test_an_exception_that_cannot_be_printed_still_has_a_name() -> None:
    assert caught(Unprintable()).message == "Unprintable: (its message can't be printed)"


def test_long_messages_and_tracebacks_are_cut_in_the_middle() -> None:
    failure = caught(ValueError("a" * 50_000 + "z"))

    assert len(failure.message) < MESSAGE_LIMIT + 100
    assert len(failure.traceback) < TRACEBACK_LIMIT + 100
    assert failure.traceback.startswith("Traceback")
    assert failure.traceback.endswith("z\n")


def test_text_that_is_not_unicode_is_replaced() -> None:
    assert caught(ValueError("\ud800")).message == "ValueError: ?"


def test_the_first_policy_that_names_classes_says_whether_another_try_makes_sense() -> None:
    job, handler = Retry(limit=3), Retry(on=(OSError,))

    assert failure_of(ValueError(), job, handler).is_final
    assert not failure_of(ConnectionError(), job, handler).is_final
    assert not failure_of(ValueError(), Retry(on=(ValueError,)), handler).is_final
    assert not failure_of(ValueError(), job, None).is_final


def test_fail_is_final_and_says_why_in_the_handlers_words() -> None:
    failure = caught(Fail("the customer has left"))

    assert (failure.kind, failure.message) == (ErrorKind.EXCEPTION, "the customer has left")
    assert failure.is_final
    assert "in caught" in failure.traceback


def test_snooze_is_no_error_and_has_its_seconds() -> None:
    failure = caught(Snooze(90, "the bank is closed"))

    assert failure == Failure(ErrorKind.SNOOZED, "put off for 90 s: the bank is closed", wait=90.0)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "60", True, 1e12])
def test_snooze_refuses_what_is_no_span_of_time(seconds: float) -> None:
    with pytest.raises(AppError, match=r"Snooze: found .*; give seconds"):
        Snooze(seconds)


def test_a_traceback_has_no_frames_of_what_lies_between_arounds_and_the_handler() -> None:
    def around() -> Iterator[None]:
        yield

    def handler() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("then") from error

    try:
        call_through([Around(around, ())], handler, ((), {}), {}, asyncio.run)
    except ValueError as error:
        told = failure_of(error).traceback

    assert told.count("in handler") == 2
    assert told.count('File "') == told.count(f'File "{__file__}"')


def test_an_error_that_has_no_other_frames_keeps_its_own() -> None:
    def twice() -> Iterator[None]:
        yield
        yield

    try:
        call_through([Around(twice, ())], lambda: None, ((), {}), {}, asyncio.run)
    except AppError as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # not this test's
        told = failure_of(error).traceback

    assert "it yielded twice" in told
