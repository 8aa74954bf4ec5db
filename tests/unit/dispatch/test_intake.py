"""What makes a submission acceptable."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from shunter.dispatch.arrivals import Submitter
from shunter.dispatch.intake import IntakeRules, admit
from shunter.errors import JobRefused
from shunter.model.job import Job, ReplyTo
from shunter.model.retry import Retry
from shunter.model.submission import Submission
from shunter.model.unique import Unique
from shunter.model.worker import Handler

SUBMISSION = Submission("j-1", "add", b"\xc0")
CLIENT = ReplyTo("zmq", b"c")


def taken(submission: Submission, handler: Handler | None = None, **rules: object) -> Job:
    return admit(
        submission,
        Submitter(CLIENT, namespace="team"),
        rules=IntakeRules(**rules),  # type: ignore[arg-type]
        handler=handler,
        known_types={"add"},
        now=100.0,
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": "x" * 200}, "id"),
        ({"type": "no spaces"}, "type"),
        ({"payload": b"x" * 1041}, "payload"),
        ({"payload": b"\x01\x02"}, "payload"),
        ({"payload": b""}, "payload"),
        ({"priority": 1001}, "priority"),
        ({"timeout": 0.0}, "timeout"),
        ({"timeout": math.nan}, "timeout"),
        ({"timeout": math.inf}, "timeout"),
        ({"delay": -1.0}, "delay"),
        ({"delay": math.nan}, "delay"),
        ({"not_before": math.inf}, "not_before"),
        ({"scheduled": -1.0}, "scheduled"),
        ({"delay": 1.0, "not_before": 1.0}, "delay"),
        ({"unique_key": ""}, "unique_key"),
        ({"unique_key": "k" * 513}, "unique_key"),
        ({"workflow": ""}, "workflow"),
        ({"keys": {"a b": "x"}}, "keys"),
        ({"keys": {"tenant": "x" * 257}}, "keys.tenant"),
        ({"keys": {"tenant": 5}}, "keys.tenant"),
        ({"run": "r" * 513}, "run"),
        ({"run": ""}, "run"),
        ({"run": "two words"}, "run"),
        ({"run": "nightly\n"}, "run"),
        ({"run": "a\x1b[0m"}, "run"),
        ({"retry": Retry(limit=-1)}, "retry.limit"),
        ({"retry": Retry(delay=-1.0)}, "retry.delay"),
        ({"retry": Retry(factor=0.5)}, "retry.factor"),
        ({"retry": Retry(jitter=2.0)}, "retry.jitter"),
        ({"retry": Retry(factor=1e300)}, "retry.factor"),
        ({"retry": Retry(max_delay=math.nan)}, "retry.max_delay"),
        ({"retry": Retry(on=("",))}, "retry.on"),
        ({"retry": Retry(never=("E",) * 17)}, "retry.never"),
        ({"effects": "once"}, "effects"),
        ({"unique": Unique("")}, "unique.key"),
        ({"unique": Unique("k", within=0.0)}, "unique.within"),
        ({"unique": Unique("k", within=math.nan)}, "unique.within"),
        ({"unique": Unique("k", during="always")}, "unique.during"),
        ({"unique": Unique("k", then="drop")}, "unique.then"),
        ({"unique": Unique("k", then="postpone")}, "unique.then"),
        ({"unique": Unique("k"), "unique_key": "k"}, "unique"),
        ({"effects": "at_most_once", "retry": Retry(on_timeout=True)}, "retry.on_timeout"),
    ],
)
def test_a_bad_field_is_named_with_what_to_send(change: dict[str, object], field: str) -> None:
    with pytest.raises(JobRefused) as refusal:
        taken(replace(SUBMISSION, **change), max_payload_bytes=1024)

    assert refusal.value.field == field


def test_what_a_submission_leaves_open_is_decided_by_the_handler() -> None:
    handler = Handler("add", priority=7, timeout=9.0, retry=Retry(limit=2))

    open_job, own_job = (
        taken(SUBMISSION, handler),
        taken(replace(SUBMISSION, priority=0, timeout=1.0), handler),
    )

    assert (open_job.priority, open_job.execution.timeout) == (7, 9.0)
    assert open_job.retry == Retry(limit=2)
    assert (own_job.priority, own_job.execution.timeout) == (0, 1.0)


def test_a_delay_becomes_a_moment_and_a_moment_that_has_passed_is_no_wait() -> None:
    assert taken(replace(SUBMISSION, delay=5.0)).wait_until == 105.0
    assert taken(replace(SUBMISSION, not_before=99.0)).wait_until is None


def test_an_unknown_type_waits_by_default_and_is_refused_where_that_is_set() -> None:
    submission = replace(SUBMISSION, type="other")

    assert taken(submission).type == "other"
    with pytest.raises(JobRefused, match="types that are served: add"):
        taken(submission, refuse_unknown_types=True)


def test_who_wants_no_reply_gets_none() -> None:
    assert taken(SUBMISSION).reply_to == CLIENT
    assert taken(replace(SUBMISSION, reply=False)).reply_to is None


def test_a_job_gets_the_namespace_of_its_submitter():
    assert taken(SUBMISSION).namespace == "team"
