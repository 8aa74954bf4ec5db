"""Ended jobs that are done again, each as a new job."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shunter.dispatch.arrivals import Submitter
from shunter.model.job import Callback, Execution, Job, Status
from shunter.model.report import Report
from shunter.model.resubmission import resubmission
from shunter.model.retry import Retry
from shunter.model.submission import Receipt, Submission
from shunter.testing.finish import finish
from unit.dispatch.conftest import Scene

ENDED = Job(
    id="j-1",
    type="t",
    created=1.0,
    updated=2.0,
    payload=b"\x01",
    status=Status.FAILED,
    priority=3,
    workflow="w",
    run="r",
    execution=Execution(timeout=9.0, started=1.0, ended=2.0),
    callback=Callback("http://127.0.0.1/x"),
    not_before=1.0,
    unique_key="k",
    retry=Retry(limit=2),
    place_within=5.0,
    keys={"tenant": "a"},
)


def submitted(scene: Scene, submission: Submission, **submitter: Any) -> Receipt:
    receipts: list[Receipt] = []
    scene.dispatcher.submit([submission], receipts.extend, submitter=Submitter(**submitter))
    scene.turns()
    return receipts[0]


def ended(scene: Scene, **changes: Any) -> Job:
    job = replace(ENDED, **changes)
    finish(scene.store.insert([job]))
    return job


def test_a_rerun_takes_over_the_work_and_leaves_out_what_belonged_to_the_one_time() -> None:
    again = resubmission(ENDED, new_id="j-2")

    assert again == Submission(
        "j-2", "t", b"\x01", priority=3, timeout=9.0, retry=Retry(limit=2), workflow="w", run="r",
        reply=False, place_within=5.0, rerun_of="j-1", keys={"tenant": "a"},
    )  # fmt: skip


def test_a_rerun_is_a_new_job_that_says_of_which(scene: Scene) -> None:
    ended(scene)
    submission = resubmission(ENDED, new_id="j-2", payload=b"\x02")

    first, second = submitted(scene, submission), submitted(scene, submission)

    assert (first, second) == (Receipt("j-2"), Receipt("j-2"))
    job = scene.job("j-2")
    assert (job.rerun_of, job.status, job.attempt) == ("j-1", Status.QUEUED, 0)
    assert job.callback == Callback("http://127.0.0.1/x")
    assert len(finish(scene.store.backlog())) == 2
    assert scene.job("j-1").status is Status.FAILED


def test_what_is_not_there_or_goes_on_is_not_rerun(scene: Scene) -> None:
    scene.worker()
    scene.submit("under-way")

    missing = submitted(scene, Submission("j-2", "t", b"\x01", rerun_of="j-1"))
    going_on = submitted(scene, Submission("j-2", "t", b"\x01", rerun_of="under-way"))
    no_name = submitted(scene, Submission("j-2", "t", b"\x01", rerun_of="no spaces"))

    assert (missing.field, going_on.field, no_name.field) == ("rerun_of",) * 3
    assert "no job j-1" in missing.reason
    assert "is in progress; wait" in going_on.reason
    scene.report("w-1", Report("under-way", 1, result=b"\x01"))
    assert not submitted(scene, Submission("j-2", "t", b"\x01", rerun_of="under-way")).reason


@pytest.mark.parametrize(
    ("submitter", "is_accepted"),
    [
        ({"namespace": "a"}, True),
        ({"namespace": "b"}, False),
        ({}, False),
        ({"sees_all": True}, True),
    ],
)
def test_a_rerun_is_of_the_namespace_of_the_first_job(
    scene: Scene, submitter: dict[str, Any], is_accepted: bool
) -> None:
    ended(scene, namespace="a")

    receipt = submitted(scene, resubmission(ENDED, new_id="j-2"), **submitter)

    assert (not receipt.reason) is is_accepted
    if is_accepted:
        assert scene.job("j-2").namespace == "a"
    else:
        assert "no job j-1" in receipt.reason


def test_whom_a_gateway_told_of_the_first_job_is_not_called_for_the_second(scene: Scene) -> None:
    ended(scene, callback=Callback("udp://127.0.0.1:9"))

    assert not submitted(scene, resubmission(ENDED, new_id="j-2")).reason
    assert scene.job("j-2").callback is None
