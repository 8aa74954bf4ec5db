"""What becomes of a report, by the answer to it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Report
from shunter.model.retry import Retry
from shunter.worker.http.verdicts import HttpError, Verdict, fault_in, lessened, verdict_on

DONE = Report("j", 1, result=b"\x01")
FAILED = Report("j", 1, error=Failure(ErrorKind.EXCEPTION, "boom", "Traceback ..."))
BARE = Report("j", 1, error=Failure(ErrorKind.EXCEPTION, "boom"))


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, Verdict.TAKEN),
        (204, Verdict.TAKEN),
        (301, Verdict.AGAIN),
        (401, Verdict.AGAIN),
        (404, Verdict.DROPPED),
        (408, Verdict.AGAIN),
        (409, Verdict.DROPPED),
        (415, Verdict.DROPPED),
        (429, Verdict.AGAIN),
        (500, Verdict.AGAIN),
        (503, Verdict.AGAIN),
    ],
)
@pytest.mark.parametrize("report", [DONE, FAILED, BARE])
def test_the_status_decides(report: Report, status: int, verdict: Verdict) -> None:
    assert verdict_on(report, status, HttpError("x", "y")) is verdict


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_is_not_acceptable_is_said_with_less_and_at_last_dropped(status: int) -> None:
    fault = HttpError("too_large", "the body is larger than 9 bytes")

    assert verdict_on(DONE, status, fault) is Verdict.LESSENED
    assert verdict_on(FAILED, status, fault) is Verdict.LESSENED
    assert verdict_on(BARE, status, fault) is Verdict.DROPPED


def test_a_result_that_is_not_taken_becomes_a_failure_that_says_so() -> None:
    report = lessened(DONE, HttpError("too_large", "larger than 9 bytes"))

    assert report.result is None
    assert report.error is not None
    assert report.error.kind is ErrorKind.REFUSED
    assert "larger than 9 bytes" in report.error.message
    assert lessened(report, HttpError()) == report


@pytest.mark.parametrize("report", [DONE, FAILED, BARE])
def test_a_log_is_left_out_before_anything_else(report: Report) -> None:
    logged = replace(report, log="what it printed\n")

    assert verdict_on(logged, 422, HttpError("invalid", "no such field", "log")) is Verdict.LESSENED
    assert lessened(logged, HttpError("invalid", "no such field", "log")) == report


def test_retries_that_an_earlier_dispatcher_does_not_know_are_left_out_and_nothing_else() -> None:
    report = replace(FAILED, retry=Retry(limit=3), log="some words")

    assert lessened(report, HttpError("invalid", "no such field", "retry")) == replace(
        report, retry=None
    )
    assert lessened(report, HttpError("too_large", "")) == replace(report, log="")


def test_a_failure_is_lessened_by_its_traceback() -> None:
    assert lessened(FAILED, HttpError()) == BARE


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (409, HttpError("unknown_worker")),
        (404, HttpError("not_found", "no such worker", "worker_id")),
    ],
)
def test_a_dispatcher_that_does_not_know_us_gets_the_report_again(
    status: int, fault: HttpError
) -> None:
    assert verdict_on(DONE, status, fault) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"error": {"code": "c", "message": "m", "field": null}}', HttpError("c", "m")),
        (b'{"error": {"code": "c", "message": "m", "field": "f"}}', HttpError("c", "m", "f")),
        (b"<html>Bad Gateway", HttpError(message="<html>Bad Gateway")),
        (b'{"error": "no"}', HttpError(message='{"error": "no"}')),
        (b"\xff\xfe", HttpError(message="��")),
        (b"", HttpError()),
    ],
)
def test_whatever_an_error_looks_like_is_read(body: bytes, fault: HttpError) -> None:
    assert fault_in(body) == fault
