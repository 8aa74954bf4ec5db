"""Jobs as JSON: nothing is lost on the way, and what is wrong is named."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from long_runs import examples
from shunter.model.identity import is_name
from shunter.model.job import (
    Callback,
    Dispatch,
    ErrorKind,
    Execution,
    Failure,
    Job,
    PastAttempt,
    Progress,
    Status,
)
from shunter.model.report import Report
from shunter.model.retry import Retry
from shunter.model.submission import Submission
from shunter.model.unique import Unique
from shunter.wire import documents
from shunter.wire.checked_documents import Document, NotJson, parsed, rules_of
from shunter.wire.documents import (
    HttpReport,
    JobRequest,
    JobsQuery,
    ResultRequest,
    job_document,
    report_of,
    status_named,
    submission_of,
)
from shunter.wire.tagged_values import MAX_NESTING, BadDocument, document_of, tagged_document
from shunter.wire.workflow_documents import graph_of_document

JOB = Job(
    id="j-1",
    type="add",
    created=1.5,
    updated=2.5,
    payload=msgspec.msgpack.encode([1, b"\0"]),
    status=Status.IN_PROGRESS,
    revision=3,
    attempt=2,
    priority=-5,
    workflow="w",
    run="r",
    dispatcher=Dispatch("d-1", 1.0, 6.0),
    execution=Execution("w-1", 1.5, 2.0, None, 9.0, 1.5),
    callback=Callback("http://127.0.0.1/x"),
    not_before=1.0,
    unique_key="k",
    retry=Retry(limit=3),
    error=Failure(ErrorKind.LOST, "gone"),
    progress=Progress(1.0, None, 2.0),
    losses=1,
    history=(PastAttempt(1, "w-0", 1.0, 2.0, "lost", "gone"),),
    log="hello",
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.just(math.nan)
    | st.text()
    | st.binary()
)
TAGS = st.sampled_from(["$bytes", "$map", "$float", "$msgpack"])
KEYS = st.text() | TAGS | st.binary() | st.integers(-(2**63), 2**64 - 1)
VALUES = st.recursive(
    SCALARS | st.datetimes(timezones=st.just(datetime.UTC)),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.dictionaries(TAGS, inner),
    max_leaves=20,
)


def submission(**made: Any) -> Submission:
    return submission_of({"type": "t", **made}, new_id="new")


def fault(document: Any) -> BadDocument:
    with pytest.raises(BadDocument) as caught:
        submission_of(document, new_id="new")
    return caught.value


# ---- values


@given(VALUES)
@settings(max_examples=examples(300), deadline=None)
def test_a_msgpack_value_survives_its_way_through_json(value: Any) -> None:
    document = msgspec.msgpack.encode(value)

    text = msgspec.json.encode(tagged_document(document))

    assert document_of(parsed(text), "payload") == document


@given(VALUES)
@settings(deadline=None)
def test_json_never_holds_a_value_it_has_no_word_for(value: Any) -> None:
    shown = tagged_document(msgspec.msgpack.encode(value))

    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\0\xff", {"$bytes": "AP8="}),
        ([{"a": b""}], [{"a": {"$bytes": ""}}]),
        ({"$bytes": "AP8="}, {"$map": {"$bytes": "AP8="}}),
        ({"$bytes": 1, "b": 2}, {"$bytes": 1, "b": 2}),
        ({"$set": 1}, {"$set": 1}),
        ({1: "a"}, {"$map": [[1, "a"]]}),
        (math.inf, {"$float": "inf"}),
    ],
)
def test_what_json_lacks_is_tagged(value: Any, shown: Any) -> None:
    document = msgspec.msgpack.encode(value)

    assert tagged_document(document) == shown
    assert document_of(shown, "payload") == document


@pytest.mark.parametrize("document", [b"\xa1\xff", b"\x81\x80\x01", b"\x91" * 200 + b"\x01"])
def test_a_document_that_json_cannot_show_is_given_as_it_is(document: bytes) -> None:
    assert list(tagged_document(document)) == ["$msgpack"]


@pytest.mark.parametrize(
    ("payload", "field", "found"),
    [
        ({"$bytes": "no base64"}, "payload.$bytes", "no base64"),
        ({"$bytes": "AP8"}, "payload.$bytes", "AP8"),
        ({"$bytes": 5}, "payload.$bytes", "5"),
        ({"a": [0, {"$bytes": None}]}, "payload.a.1.$bytes", "null"),
        ({"$float": "1.0"}, "payload.$float", "1.0"),
        ({"$msgpack": "wQ=="}, "payload.$msgpack", "not one msgpack value"),
        ({"$map": 5}, "payload.$map", "no map"),
        ({"$map": [[{}, 1]]}, "payload.$map", "no map"),
        ({"$map": [[1]]}, "payload.$map", "no map"),
        ([2**64], "payload.0", str(2**64)),
        ([-(2**63) - 1], "payload.0", str(-(2**63) - 1)),
    ],
)
def test_a_value_that_can_not_be_is_named_by_its_path(payload: Any, field: str, found: str) -> None:
    refused = fault({"type": "t", "payload": payload})

    assert refused.field == field
    assert found in refused.message


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_absurd_nesting_is_refused() -> None:
    assert submission(payload=nested(MAX_NESTING)).payload.endswith(b"\x01")
    assert "nested too deeply" in fault({"type": "t", "payload": nested(MAX_NESTING + 1)}).message
    with pytest.raises(NotJson, match="nested too deeply"):
        parsed(b"[" * 100_000)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"a": NaN}', b"1e999", b"{} {}"])
def test_what_is_not_json_is_refused_as_such(text: bytes) -> None:
    with pytest.raises(NotJson):
        parsed(text)


@given(st.binary() | st.text().map(str.encode))
def test_no_text_breaks_the_reader(text: bytes) -> None:
    with contextlib.suppress(BadDocument):
        submission_of(parsed(text), new_id="new")


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_document_breaks_the_check(document: Any) -> None:
    for read in (
        lambda: submission_of(document, new_id="new"),
        lambda: report_of(document, job_id="j"),
        lambda: submission_of({"type": "t", "execution": document}, new_id="new"),
    ):
        with contextlib.suppress(BadDocument):
            read()


# ---- submissions


def test_a_submission_is_read_in_full() -> None:
    made = submission(
        id="j-1",
        payload=[1],
        priority=3,
        execution={"timeout": 1500},
        retry={"limit": 2, "on": ["ValueError"], "never": ["a.B"], "on_timeout": True},
        not_before=7,
        unique={"key": "k", "within": 60, "during": "queued", "then": "postpone"},
        effects="at_least_once",
        workflow="w",
        run="r",
        callback={"url": "http://127.0.0.1/x"},
        keys={"tenant": "acme"},
    )

    assert made == Submission(
        id="j-1",
        type="t",
        payload=b"\x91\x01",
        priority=3,
        timeout=1.5,
        retry=Retry(limit=2, on=("ValueError",), never=("a.B",), on_timeout=True),
        not_before=7.0,
        unique=Unique("k", 60.0, "queued", "postpone"),
        effects="at_least_once",
        workflow="w",
        run="r",
        callback=Callback("http://127.0.0.1/x"),
        reply=False,
        keys={"tenant": "acme"},
    )


def test_a_submission_needs_nothing_but_a_type() -> None:
    assert submission() == Submission("new", "t", b"\xc0", reply=False)


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        ({}, "type", "missing; send 1 to 128 letters"),
        ([], "", "found a list; send a JSON object"),
        ({"type": 5}, "type", "found 5; send 1 to 128 letters"),
        ({"type": "a b"}, "type", 'found "a b"; send'),
        ({"type": "a\n"}, "type", "send 1 to 128 letters"),
        ({"type": "t", "typ": 1}, "typ", "not a field of this document; send any of type,"),
        ({"type": "t", "status": "c"}, "status", "not a field"),
        ({"type": "t", "priority": True}, "priority", "found true; send a whole number"),
        ({"type": "t", "priority": 1001}, "priority", "found 1001; send a whole number, -1000"),
        ({"type": "t", "execution": 5}, "execution", "found 5; send an object with timeout"),
        ({"type": "t", "execution": {"timeout": 0}}, "execution.timeout", "found 0; send milli"),
        ({"type": "t", "execution": {"timeout": "1"}}, "execution.timeout", 'found "1"'),
        ({"type": "t", "execution": {"started": 1}}, "execution.started", "send any of timeout"),
        ({"type": "t", "retry": {"limit": -1}}, "retry.limit", "found -1; send a whole number"),
        ({"type": "t", "retry": {"jitter": 2}}, "retry.jitter", "found 2; send a number, 0 to 1"),
        ({"type": "t", "not_before": -1}, "not_before", "found -1; send seconds since 1970"),
        ({"type": "t", "unique_key": ""}, "unique_key", 'found ""; send 1 to 512 characters'),
        ({"type": "t", "effects": "once"}, "effects", 'found "once"; send at_least_once or at_mo'),
        ({"type": "t", "unique": {}}, "unique.key", "missing; send 1 to 512 characters"),
        ({"type": "t", "unique": {"key": "k", "then": 1}}, "unique.then", "send keep, replace, po"),
        ({"type": "t", "unique": {"key": "k", "during": "x"}}, "unique.during", "send queued or r"),
        ({"type": "t", "unique": {"key": "k", "within": 0}}, "unique.within", "found 0; send sec"),
        ({"type": "t", "retry": {"on": "E"}}, "retry.on", "a list of at most 16 names"),
        ({"type": "t", "retry": {"never": [1]}}, "retry.never", "a list of at most 16 names"),
        ({"type": "t", "retry": {"on_timeout": 1}}, "retry.on_timeout", "send true or false"),
        ({"type": "t", "keys": ["a"]}, "keys", "found a list; send up to 8 names and values"),
        ({"type": "t", "keys": dict.fromkeys("abcdefghi", "v")}, "keys", "send up to 8 names"),
        ({"type": "t", "callback": {}}, "callback.url", "missing; send an http://"),
        ({"type": "t", "callback": {"url": "file:///x"}}, "callback.url", "send an http://"),
        ({"type": "t", "x" * 999: 1}, "x" * 64, "not a field"),
        ({"type": "t" * 999}, "type", "..."),
    ],
)
def test_a_field_that_is_wrong_is_named_with_what_to_send(
    document: Any, field: str, words: str
) -> None:
    refused = fault(document)

    assert refused.field == field
    assert words in refused.message
    assert len(refused.message) < 300


def test_a_whole_number_may_be_written_with_a_point() -> None:
    made = submission(priority=5.0, retry={"limit": 2.0})

    assert (made.priority, made.retry) == (5, Retry(limit=2))
    assert fault({"type": "t", "priority": 5.5}).field == "priority"
    assert fault({"type": "t", "retry": {"limit": 1e300}}).field == "retry.limit"


def test_so_may_one_in_a_list_and_another_number_there_is_refused() -> None:
    good = {"jobs": [{"type": "t"}, {"type": "t", "priority": 5.0, "retry": {"limit": 2.0}}]}
    bad = {"jobs": [{"type": "t", "priority": 5.0}, {"type": "t", "priority": 5.5}]}

    _, made = graph_of_document(good, lambda: "made")
    with pytest.raises(BadDocument) as refused:
        graph_of_document(bad, lambda: "made")

    assert (made.priority, made.retry) == (5, Retry(limit=2))
    assert refused.value.field == "jobs[1].priority"
    assert refused.value.message.startswith("found 5.5; send a whole number")


@pytest.mark.parametrize(
    ("job", "field", "message"),
    [
        ({"id": "b", "type": "t", "priority": "high"}, "jobs[1].priority", 'job b: found "high"'),
        ({"id": "b", "typ": "t"}, "jobs[1].typ", "job b: not a field"),
        ({"type": "t", "payload": {"$bytes": 5}}, "jobs[1].payload", "found"),
        ({"id": "b", "type": "t", "run": "r"}, "jobs[1].run", "job b: found in a job"),
        (5, "jobs[1]", "found 5"),
    ],
)
def test_a_graph_with_a_bad_job_says_which_one_it_is(job: Any, field: str, message: str) -> None:
    with pytest.raises(BadDocument) as refused:
        graph_of_document({"jobs": [{"type": "t"}, job]}, lambda: "made")

    assert refused.value.field.startswith(field)
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize("expected", [JobRequest, ResultRequest, JobsQuery])
def test_every_field_says_what_to_send(expected: type[Document]) -> None:
    fields = set(rules_of(expected))

    assert {name for name in fields if "." not in name} == set(expected.__struct_fields__)
    assert all(rules_of(expected).values())


@given(st.text(max_size=4) | st.from_regex(r"[A-Za-z0-9][a-z/@:.-]{0,130}\n?", fullmatch=True))
def test_a_name_is_the_same_here_as_everywhere(text: str) -> None:
    try:
        accepted = submission(id=text).id == text
    except BadDocument:
        accepted = False

    assert accepted == is_name(text)


# ---- reports

RUN = {"attempt": 2, "worker_id": "w-1"}


def test_a_result_is_read() -> None:
    came = report_of({**RUN, "status": "c", "result": {"$bytes": "AA=="}}, job_id="j")

    assert came == HttpReport("w-1", Report("j", 2, result=b"\xc4\x01\0"))
    assert report_of({**RUN, "status": "completed"}, job_id="j").report.result == b"\xc0"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ("broken", Failure(ErrorKind.EXCEPTION, "broken")),
        ({"message": "m", "kind": "lost"}, Failure(ErrorKind.LOST, "m")),
        ({"message": "m", "traceback": "t"}, Failure(ErrorKind.EXCEPTION, "m", "t")),
        (None, Failure(ErrorKind.EXCEPTION, "its worker gave no reason")),
    ],
)
def test_a_failure_is_read(error: Any, failure: Failure) -> None:
    came = report_of({**RUN, "status": "f", "error": error}, job_id="j")

    assert came.report == Report("j", 2, error=failure)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"status": "x"}, "status"),
        ({"status": "c", "error": "e"}, "error"),
        ({"status": "f", "result": 1}, "result"),
        ({"status": "c", "attempt": "2"}, "attempt"),
        ({"status": "c", "worker_id": None}, "worker_id"),
        ({"status": "c", "secret": "guess"}, "secret"),
        ({"status": "c", "result": [{"$bytes": 1}]}, "result.0.$bytes"),
        ({"status": "f", "error": {"kind": "lost"}}, "error.message"),
        ({"status": "f", "error": {"message": "m", "kind": "odd"}}, "error.kind"),
        ({"status": "f", "error": 5}, "error"),
    ],
)
def test_a_report_that_is_wrong_names_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadDocument) as caught:
        report_of({**RUN, **changes}, job_id="j")

    assert caught.value.field == field


# ---- documents


def test_the_token_of_a_callback_is_not_written() -> None:
    job = replace(JOB, callback=Callback("http://127.0.0.1/x?token=hunter2"))

    assert b"hunter2" not in msgspec.json.encode(job_document(job))


def test_a_job_is_written_in_full() -> None:
    shown = msgspec.to_builtins(job_document(JOB))

    assert shown["status"] == "i"
    assert shown["payload"] == [1, {"$bytes": "AA=="}]
    assert shown["dispatcher"] == {"id": "d-1", "date": 1.0, "expiry": 6.0}
    assert shown["execution"] == {
        "worker_id": "w-1", "sent": 1.5, "started": 2.0, "ended": None, "expiry": 9.0,
        "timeout": 1500,
    }  # fmt: skip
    assert shown["callback"] == {
        "url": "http://127.0.0.1/x",
        "didCallbackSuccessfully": False,
        "tries": 0,
        "error": "",
        "due": None,
    }
    assert shown["retry"]["limit"] == 3
    assert shown["error"] == {"kind": "lost", "message": "gone"}
    assert shown["history"][0]["outcome"] == "lost"
    assert set(shown) == set(Job.__struct_fields__) - {"reply_to", "parents"}


def test_a_list_leaves_out_what_is_large() -> None:
    full, short = (msgspec.to_builtins(job_document(JOB, in_full=way)) for way in (True, False))

    assert set(full) - set(short) == {"payload", "result", "log"}


@pytest.mark.parametrize("seconds", [0.0005, 0.001, 1.5, 3, 86400.0])
def test_a_timeout_is_told_in_milliseconds(seconds: float) -> None:
    job = msgspec.structs.replace(JOB, execution=Execution(timeout=seconds))
    told = job_document(job).execution.timeout

    assert told is not None
    assert submission(execution={"timeout": told}).timeout == seconds


@pytest.mark.parametrize("status", Status)
def test_every_status_has_its_letter_and_its_word(status: Status) -> None:
    names = get_args(get_args(documents.StatusName)[0])
    word = status.word.replace(" ", "_")

    assert status_named(status.value) is status_named(word) is status
    assert {status.value, word} < set(names)
