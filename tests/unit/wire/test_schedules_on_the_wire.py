"""Ticks travel to handlers over every protocol, and schedules are read as they were written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shunter.gateway.udp.workers import _task
from shunter.gateway.zmq.backend import _assignment
from shunter.model.job import Execution, Job
from shunter.model.schedule import Overlap, ScheduleDraft, ScheduleTerms, put
from shunter.model.submission import Submission
from shunter.model.timing import Cron, Every
from shunter.model.worker import DeclaredSchedule, Handler
from shunter.wire.checked_documents import checked
from shunter.wire.documents import posted_job
from shunter.wire.introduction import fault_in
from shunter.wire.messages import Hello, ScheduleOrder, ScheduleVerb, decode, encode
from shunter.wire.schedule_documents import draft_of, schedule_document
from shunter.wire.tagged_values import BadDocument
from shunter.wire.worker_documents import WorkerRequest, declared_handlers
from shunter.worker.http.offers import Introduction, handler_schedules, offer_of
from shunter.worker.udp.calculator_session import Begin, CalculatorSession

TICK = 1_700_000_040.0
JOB = Job(
    id="j",
    type="add",
    created=1.0,
    updated=1.0,
    payload=b"\xc0",
    attempt=1,
    execution=Execution(worker_id="w-1"),
    scheduled=TICK,
)
TERMS = ScheduleTerms(timing=Cron("0 8 * * *", tz="Europe/Berlin"), overlap=Overlap.ONE, jitter=2.5)


def test_the_tick_of_a_job_reaches_workers_over_zeromq_http_and_udp() -> None:
    _, over_http = offer_of(msgspec.to_builtins(posted_job(JOB, b"")))
    over_udp = CalculatorSession(("add",), heartbeat=1.0).offered(_task(JOB, "j"))

    assert _assignment(JOB).scheduled == TICK
    assert over_http.scheduled == TICK
    assert isinstance(over_udp, Begin)
    assert over_udp.run.scheduled == TICK


def test_an_order_is_read_as_it_was_written() -> None:
    draft = ScheduleDraft(terms=TERMS, job=Submission("", "add", b"\x91\x01", priority=3))
    order = ScheduleOrder(1, ScheduleVerb.PUT, "a", draft=draft)

    assert decode(encode(order), ScheduleOrder) == order


def test_a_document_that_was_shown_can_be_sent_again() -> None:
    for timing in (Cron("0 8 * * *", tz="Europe/Berlin"), Every(30.0)):
        terms = ScheduleTerms(timing=timing, overlap=Overlap.ALL, catch_up=5.0, jitter=1.0)
        job = Submission("a", "add", b"\x91\x01", priority=3, timeout=2.5, reply=False)
        made = put(None, "a", ScheduleDraft(terms=terms, job=job), namespace="", now=TICK)
        shown: dict[str, Any] = msgspec.to_builtins(schedule_document(made))
        fields = {"type", "payload", "overlap", "catch_up", "jitter", "priority", "execution"}
        fields |= {"cron", "tz"} if isinstance(timing, Cron) else {"every"}

        again = draft_of({name: shown[name] for name in fields}, "a")
        assert (again.terms, again.job) == (terms, job)


def test_what_a_worker_declares_over_http_is_what_its_app_declares() -> None:
    handlers = (
        Handler("report", schedule=DeclaredSchedule(TERMS, b"\xc0", 5.0)),
        Handler("beat", schedule=DeclaredSchedule(ScheduleTerms(timing=Every(5.0)), b"\xc0", 5.0)),
        Handler("add"),
    )
    introduction = Introduction(
        hostname="h",
        port=5,
        handlers=[handler.type for handler in handlers],
        maxJobs=1,
        schedules=handler_schedules(handlers),
    )
    registration = checked(msgspec.json.decode(msgspec.json.encode(introduction)), WorkerRequest)

    assert declared_handlers(registration) == handlers


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"handler": "other", "every": 5}, "none of the handlers"),
        ({"handler": "add", "cron": "61 * * * *"}, "five fields"),
        ({"handler": "add", "every": 5, "tz": "Mars", "cron": "0 8 * * *"}, "one of the two"),
        ({"handler": "add", "every": 5, "payload": "x" * 70_000}, "at most 4,096"),
    ],
)
def test_a_wrong_declaration_over_http_is_refused(schedule: dict[str, Any], words: str) -> None:
    document = {
        "hostname": "h", "port": 5, "handlers": ["add"], "maxJobs": 1, "schedules": [schedule]
    }  # fmt: skip
    with pytest.raises(BadDocument, match=words):
        declared_handlers(checked(document, WorkerRequest))


@pytest.mark.parametrize(
    ("schedule", "field", "words"),
    [
        ({"every": 5}, "schedules.handler", "missing; send 1 to 128 letters"),
        ({"handler": "add", "sometimes": 5}, "schedules.sometimes", "any of handler, payload"),
        ({"handler": "add", "every": "5"}, "schedules.every", "send seconds, a number"),
        ({"handler": "add", "every": 5, "jitter": -1.0}, "schedules.jitter", "send seconds"),
        (5, "schedules", "a list of schedules"),
    ],
)
def test_what_is_wrong_in_a_list_is_named(schedule: Any, field: str, words: str) -> None:
    good = {"handler": "add", "every": 5}
    document = {
        "hostname": "h", "port": 5, "handlers": ["add"], "maxJobs": 1, "schedules": [good, schedule]
    }  # fmt: skip
    with pytest.raises(BadDocument) as refused:
        checked(document, WorkerRequest)

    assert refused.value.field == field
    assert words in refused.value.message


def test_a_wrong_declaration_over_zeromq_is_refused_by_handler_and_field() -> None:
    terms = ScheduleTerms(timing=Every(0.0))
    for schedule, words in (
        (DeclaredSchedule(terms, b"\xc0"), "handlers: add: schedule: every.seconds"),
        (DeclaredSchedule(TERMS, b"x" * 70_000), "handlers: add: schedule: payload"),
    ):
        hello = Hello("w-1", 1, (Handler("add", schedule=schedule),), 1, 1)
        assert words in (fault_in(decode(encode(hello), Hello)) or "")
    good = Hello("w-1", 1, (Handler("add", schedule=DeclaredSchedule(TERMS, b"\xc0")),), 1, 1)
    assert fault_in(decode(encode(good), Hello)) is None
