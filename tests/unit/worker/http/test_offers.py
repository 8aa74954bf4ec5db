"""Documents that an HTTP worker reads and writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shunter.errors import AppError
from shunter.model.job import ErrorKind, Execution, Failure, Job, Status
from shunter.model.journal import LiveLog
from shunter.model.parents import Parents
from shunter.model.report import Report
from shunter.payload import result_of
from shunter.wire.checked_documents import checked
from shunter.wire.documents import HttpReport, LogRequest, job_document, posted_job, report_of
from shunter.wire.messages import Assignment
from shunter.wire.tagged_values import BadDocument
from shunter.worker.http.holdings import RunOffer
from shunter.worker.http.offers import log_document, offer_of, result_document

DOCUMENT: dict[str, Any] = {
    "id": "j",
    "type": "add",
    "payload": [1, {"$bytes": "AP8="}],
    "attempt": 3,
    "execution": {"worker_id": "w-1", "timeout": 1500, "started": 5.0},
    "run": "november",
    "priority": 0,
    "some_day": "there may be more fields",
}


def test_an_offer_has_what_a_run_needs() -> None:
    offer, assignment = offer_of(DOCUMENT)

    payload = msgspec.msgpack.encode([1, b"\x00\xff"])
    assert offer == RunOffer(job_id="j", attempt=3, type="add", worker_id="w-1")
    assert assignment == Assignment("j", 3, "add", payload, 1.5, "november")


def test_a_job_as_a_dispatcher_writes_it_is_an_offer() -> None:
    job = Job(
        id="a/b",
        type="add",
        created=1.0,
        updated=2.0,
        payload=msgspec.msgpack.encode({"x": b"\x00"}),
        status=Status.IN_PROGRESS,
        attempt=7,
        execution=Execution(worker_id="w-1", started=2.0, timeout=0.25),
    )

    offer, assignment = offer_of(msgspec.json.decode(msgspec.json.encode(job_document(job))))

    assert offer == RunOffer(job_id="a/b", attempt=7, type="add", worker_id="w-1")
    assert assignment == Assignment("a/b", 7, "add", job.payload or b"", 0.25, None)


def test_a_report_carries_the_log_and_of_a_long_one_the_end() -> None:
    def log_in(text: str) -> str:
        written = result_document(Report("j", 1, result=b"\xc0", log=text), "w-1")
        return report_of(msgspec.json.decode(written), job_id="j").report.log

    assert log_in("one\ntwo\n") == "one\ntwo\n"
    assert log_in("") == ""
    long = log_in("first\n" + "line\n" * 40_000 + "last\n")
    assert long.startswith("[... ")
    assert long.endswith("\nlast\n")
    assert log_in(f"<sealed:{'A' * 200_000}>") == ""


def test_what_a_run_has_printed_so_far_is_told_with_its_secret() -> None:
    offer = RunOffer(job_id="j", attempt=3, type="add", worker_id="w-1", secret="0" * 32)

    told = checked(msgspec.json.decode(log_document(offer, LiveLog(7, "half\n"))), LogRequest)

    assert told == LogRequest(attempt=3, worker_id="w-1", log="half\n", secret="0" * 32, start=7)


def test_whoever_asks_for_parents_over_http_is_told_where_there_are_some() -> None:
    _, alone = offer_of(DOCUMENT)
    _, child = offer_of({**DOCUMENT, "when": "all_ok"})

    assert len(Parents(alone.parents)) == 0
    with pytest.raises(AppError, match="only for workers over ZeroMQ"):
        Parents(child.parents)


def test_what_need_not_be_there_may_be_missing_or_null() -> None:
    short = {"id": "j", "type": "add", "attempt": 1, "execution": {"worker_id": "w"}}
    null = {**short, "payload": None, "run": None, "execution": {"worker_id": "w", "timeout": None}}

    assert offer_of(short) == offer_of(null)
    assert offer_of(short)[1] == Assignment("j", 1, "add", b"\xc0", None, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": None}, "id"),
        ({"id": "../x"}, "id"),
        ({"type": ""}, "type"),
        ({"attempt": "one"}, "attempt"),
        ({"attempt": -1}, "attempt"),
        ({"attempt": None}, "attempt"),
        ({"execution": None}, "execution"),
        ({"execution": {}}, "execution.worker_id"),
        ({"execution": {"worker_id": "a b"}}, "execution.worker_id"),
        ({"execution": {"worker_id": "w", "timeout": 0}}, "execution.timeout"),
        ({"execution": {"worker_id": "w", "timeout": "soon"}}, "execution.timeout"),
        ({"payload": {"$bytes": "?"}}, "payload.$bytes"),
        ({"payload": [10**30]}, "payload.0"),
        ({"run": ""}, "run"),
    ],
)
def test_a_field_that_is_wrong_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadDocument) as caught:
        offer_of({**DOCUMENT, **changes})

    assert caught.value.field == field


def test_a_result_is_read_by_a_dispatcher_as_it_was() -> None:
    report = Report("j", 3, result=result_of({"data": b"\x00", "n": [1, None]}))

    document = msgspec.json.decode(result_document(report, "w"))

    assert report_of(document, job_id="j") == HttpReport("w", report)


def test_the_secret_of_a_run_comes_with_its_job_and_goes_with_its_report() -> None:
    secret = bytes(range(16))
    job = Job(id="j", type="add", created=0, updated=0, execution=Execution(worker_id="w"))

    posted = msgspec.json.decode(msgspec.json.encode(posted_job(job, secret)))
    offer, assignment = offer_of(posted)
    report = Report("j", 3, error=Failure(ErrorKind.LOST, "gone"))
    document = msgspec.json.decode(result_document(report, "w", offer.secret))

    assert report_of(document, job_id="j") == HttpReport("w", report, secret)
    assert secret.hex() not in repr(assignment)
    assert {**posted, "secret": None}.keys() - msgspec.to_builtins(job_document(job)).keys() == {
        "secret"
    }


def test_a_result_of_none_is_a_result() -> None:
    report = Report("j", 3, result=result_of(None))

    document = msgspec.json.decode(result_document(report, "w"))

    assert report_of(document, job_id="j") == HttpReport("w", report)


@pytest.mark.parametrize("kind", ErrorKind)
def test_a_failure_is_read_by_a_dispatcher_as_it_was(kind: ErrorKind) -> None:
    wait = 60.0 if kind is ErrorKind.SNOOZED else None
    report = Report("j", 3, error=Failure(kind, "boom", "Traceback", is_final=True, wait=wait))

    document = msgspec.json.decode(result_document(report, "w"))

    assert report_of(document, job_id="j") == HttpReport("w", report)


def test_what_it_took_to_end_a_run_is_in_the_message() -> None:
    failure = Failure(ErrorKind.TIMEOUT, "ran past its time-out", ended_by="SIGKILL")

    document = msgspec.json.decode(result_document(Report("j", 3, error=failure), "w"))

    assert document["error"]["message"] == "ran past its time-out (ended by SIGKILL)"


def test_a_message_is_never_longer_than_a_dispatcher_takes() -> None:
    failure = Failure(ErrorKind.EXCEPTION, "x" * 10**6, "y" * 10**6, "SIGKILL")

    document = msgspec.json.decode(result_document(Report("j", 3, error=failure), "w"))

    report_of(document, job_id="j")


@pytest.mark.parametrize("is_told", [True, False])
def test_a_failure_says_whether_hooks_were_told_of_it(is_told: bool) -> None:
    report = Report("j", 1, error=Failure(ErrorKind.EXCEPTION, "no", is_told=is_told))

    read = report_of(msgspec.json.decode(result_document(report, "w")), job_id="j")

    assert read.report.error is not None
    assert read.report.error.is_told is is_told
