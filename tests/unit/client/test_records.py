"""Whatever record a client hands out, `json.dumps` takes its `as_dict()`, without any secret."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

from shunter import AsyncClient, AsyncUdpClient, Client, Cron, UdpClient
from shunter.codec import Codec
from shunter.model.document import SEALED_EXTENSION
from shunter.model.explanation import (
    ChangeKind,
    Explanation,
    Holder,
    JobStanding,
    LifeSpan,
    Reason,
    ReasonKind,
    SmallestChange,
    SpanKind,
)
from shunter.model.job import Callback, ErrorKind, Failure, Job, Status, When
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.job_log import LogPiece, LogRestart
from shunter.model.journal import EntryKind, JournalEntry
from shunter.model.limits_record import LaneCount, TypeLimits
from shunter.model.pause import Pause, PauseTarget
from shunter.model.retry import Retry
from shunter.model.run_view import RunSummary, RunView
from shunter.model.schedule import Schedule, ScheduleTerms
from shunter.model.submission import Receipt, Submission
from shunter.model.worker import DeclaredSchedule, Handler, Worker, WorkerKind
from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.payload import payload_of
from shunter.wire.messages import JournalShown, Outcome, Standing

SECRET = "k3y7mq9xw2vbn4td"
PACKED = msgspec.msgpack.encode({"raw": b"\0\xff", 1: None})

FAILURE = Failure(ErrorKind.EXCEPTION, "ValueError: no", traceback="Traceback ...")
CALLBACK = Callback(f"https://shop.test/done/{SECRET}?token={SECRET}")
TERMS = ScheduleTerms(timing=Cron("0 8 * * *", tz="Europe/Berlin"), jitter=5.0)
STEP = JournalEntry(
    job_id="j", kind=EntryKind.STEP, key="pay", attempt=1, at=3.0, body=PACKED, digest=b"\xff\0"
)
CALL = Submission(
    "s", "add", payload_of(1, b=2), retry=Retry(limit=2), callback=CALLBACK,
    keys={"tenant": "acme"}, journal=(STEP,),
)  # fmt: skip
JOB = Job(
    id="j", type="add", created=1.0, updated=2.0, payload=payload_of(1), result=PACKED,
    status=Status.FAILED, callback=CALLBACK, error=FAILURE, when=When.ALL_DONE,
)  # fmt: skip
EDGE = JobEdge("j", "i", ParentOutcome.COMPLETED, 1)
LIMITS = JobLimits(Limit(5, "tenant"), Rate(60, 60.0, "tenant"), "tenant")

SAMPLES: dict[type[Any], Any] = {
    Job: JOB,
    Submission: CALL,
    JournalEntry: STEP,
    JobEdge: EDGE,
    Receipt: Receipt("j", "id", "it is not there"),
    Outcome: Outcome("j", Status.FAILED, PACKED, FAILURE),
    Standing: Standing(1, "d", (("add", Status.IN_PROGRESS, 3),), {"submitted": 4}),
    LogPiece: LogPiece(1, 2, "hi"),
    LogRestart: LogRestart(2),
    Pause: Pause(target=PauseTarget.TYPE, name="add", at=1.0),
    RunView: RunView("r", [JOB], [EDGE]),
    RunSummary: RunSummary(id="r", workflow="etl", created=1.0, counts={Status.IN_PROGRESS: 2}),
    Schedule: Schedule(
        name="s", terms=TERMS, job=CALL, created=1.0, updated=2.0, unfinished=("j",)
    ),
    TypeLimits: TypeLimits(
        type="add", limits=LIMITS, declared=LIMITS, declared_by="w", is_changed=False,
        lanes=(LaneCount(type="add", lane="tenant=acme", running=1),),
    ),
    Worker: Worker(
        id="w", kind=WorkerKind.HTTP, hostname="h", port=1, registered=1.0, last_pinged=2.0,
        handlers=(Handler("add", retry=Retry(limit=1), limits=LIMITS,
                          schedule=DeclaredSchedule(TERMS, payload_of())),),
        max_jobs=4, secret=SECRET, key="workers", jobs=("j",), places=(1,),
    ),
    Explanation: Explanation(
        job_id="j", type="add", status="queued", standing=JobStanding.STUCK, at=1.0, text="no",
        reasons=(Reason(kind=ReasonKind.PAUSED, text="no", holders=(Holder("i", "add", "q"),)),),
        change=SmallestChange(kind=ChangeKind.RESUME, text="resume"),
        spans=(LifeSpan(SpanKind.QUEUED, 1.0, "long"),),
    ),
}  # fmt: skip
"""One of each class, with what JSON has no form for wherever it may be."""

NO_RECORDS = {
    JournalShown,  # a page as it travels; what is in it is handed out
    Codec,
    Status,
}


def classes_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in (get_origin(hint), *get_args(hint)):
        yield from classes_in(part) if part is not None else ()


def returned_by(face: type[Any]) -> Iterator[type[Any]]:
    for name in dir(face):
        member = inspect.getattr_static(face, name)
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and not name.startswith("_"):
            yield from classes_in(get_type_hints(function).get("return"))


def handed_out() -> set[type[Any]]:
    """Return our classes that the clients return, and that the objects which they return do."""
    todo: list[type[Any]] = [AsyncClient, Client, AsyncUdpClient, UdpClient]
    faces, records = set(todo), set()
    while todo:
        for found in returned_by(todo.pop()):
            if not found.__module__.startswith("shunter.client"):
                records.add(found)
            elif found not in faces:
                faces.add(found)
                todo.append(found)
    return {found for found in records if found.__module__.startswith("shunter")} - NO_RECORDS


def test_there_is_a_sample_of_every_record_that_clients_return() -> None:
    assert handed_out() == set(SAMPLES)


@pytest.mark.parametrize("record", SAMPLES.values(), ids=lambda it: type(it).__name__)
def test_a_record_becomes_json_as_it_is_without_its_secrets(record: Any) -> None:
    written = json.dumps(record.as_dict())

    assert isinstance(json.loads(written), dict)
    assert SECRET not in written


def test_the_state_of_a_worker_and_the_name_of_its_key_are_told() -> None:
    told = SAMPLES[Worker].as_dict()

    assert (told["state"], told["key"], told["kind"]) == ("untried", "workers", "http")
    assert told["handlers"][0]["type"] == "add"
    assert "secret" not in told


def test_the_payload_of_a_schedule_is_decoded() -> None:
    schedule = SAMPLES[Schedule]
    sealed = msgspec.msgpack.encode(msgspec.msgpack.Ext(SEALED_EXTENSION, b"nobody reads this"))

    def payload(document: bytes) -> Any:
        told = replace(schedule, job=replace(CALL, payload=document)).as_dict()
        return told["job"].get("payload", "left out")

    assert payload(CALL.payload) == {"*": [1], "b": 2}
    assert payload(sealed) == {"encrypted": True, "bytes": len(sealed)}
    assert payload(b"") == "left out"


def test_what_travels_as_an_array_is_told_by_its_fields() -> None:
    assert SAMPLES[Receipt].as_dict() == {"job_id": "j", "field": "id", "reason": "it is not there"}
    assert SAMPLES[Outcome].as_dict()["error"]["message"] == "ValueError: no"
    assert "priority" not in CALL.as_dict()


def test_documents_are_decoded() -> None:
    value = {"raw": "AP8=", "1": None}

    assert SAMPLES[Job].as_dict()["result"] == value
    assert SAMPLES[Outcome].as_dict()["result"] == value
    assert SAMPLES[JournalEntry].as_dict()["body"] == value
    assert Outcome("j", Status.CANCELLED).as_dict()["result"] is None


def test_letters_of_the_store_are_told_as_words() -> None:
    assert SAMPLES[Outcome].as_dict()["status"] == "failed"
    assert SAMPLES[JournalEntry].as_dict()["kind"] == "step"
    assert SAMPLES[RunSummary].as_dict()["jobs"] == {"in progress": 2}
    assert SAMPLES[RunView].as_dict()["jobs"][0]["status"] == "failed"
    backlog = [{"type": "add", "status": "in progress", "jobs": 3}]
    assert SAMPLES[Standing].as_dict()["backlog"] == backlog
