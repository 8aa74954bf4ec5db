"""A worker behind HTTP does jobs, and reports how they ended."""

from __future__ import annotations

import base64
import statistics
import time

import pytest

from system.http_worker.fake_dispatcher import FakeDispatcher
from system.witness import runs_in
from system.yard import Yard, until


def test_it_introduces_itself(shared: FakeDispatcher) -> None:
    said = until(lambda: shared.registrations[-1]["maxJobs"] == 2 and shared.registrations[-1])

    assert said["hostname"] == "127.0.0.1"
    assert {"add", "echo", "fail"} <= set(said["handlers"])
    assert set(said) == {"hostname", "port", "handlers", "maxJobs"}


def test_a_health_check_says_who_and_how_much(shared: FakeDispatcher) -> None:
    answer = until(lambda: (it := shared.health_check()).json()["maxJobs"] == 2 and it)

    assert answer.status_code == 200
    assert answer.json() == {"id": "w-fake", "jobs": 0, "maxJobs": 2}


def test_a_job_is_done_and_reported(shared: FakeDispatcher) -> None:
    answer = shared.offer("sum", "add", 20, 22)

    assert answer.status_code == 202
    said = shared.report_on("sum")
    assert min(said.pop("waited"), said.pop("ran")) >= 0
    assert said == {
        "status": "c",
        "attempt": 1,
        "worker_id": "w-fake",
        "result": 42,
    }
    until(lambda: shared.look("sum") == 404)


def test_bytes_travel_both_ways(shared: FakeDispatcher) -> None:
    tagged = {"$bytes": base64.b64encode(bytes(range(256))).decode()}

    shared.offer("bytes", "echo", {"inside": [tagged]})

    assert shared.report_on("bytes")["result"] == {"inside": [tagged]}


def test_named_arguments_and_no_arguments_are_understood(shared: FakeDispatcher) -> None:
    shared.offer("named", "add", payload={"left": 1, "right": 2})

    assert shared.report_on("named")["result"] == 3


def test_a_large_payload_comes_back_whole(shared: FakeDispatcher) -> None:
    text = "ä" * 300_000

    shared.offer("large", "echo", text)

    assert shared.report_on("large")["result"] == text


def test_a_job_with_a_slash_in_its_name_keeps_it(shared: FakeDispatcher) -> None:
    assert shared.offer("a/b", "work", 1, 0.5).status_code == 202
    assert shared.look("a%2Fb") == 200

    assert shared.report_on("a/b")["status"] == "c"


def test_a_failure_is_reported_with_its_traceback(shared: FakeDispatcher) -> None:
    shared.offer("failing", "fail", "the disk is full")

    said = shared.report_on("failing")
    assert (said["status"], said["error"]["kind"]) == ("f", "exception")
    assert said["error"]["message"] == "ValueError: the disk is full"
    assert "witness_app.py" in said["error"]["traceback"]
    assert "result" not in said


def test_arguments_that_do_not_fit_are_refused_by_the_job_not_by_the_worker(
    shared: FakeDispatcher,
) -> None:
    assert shared.offer("misfit", "add", "one").status_code == 202

    assert shared.report_on("misfit")["error"]["kind"] == "refused"


def test_a_child_that_dies_is_reported_as_lost(shared: FakeDispatcher) -> None:
    shared.offer("dying", "die")

    said = shared.report_on("dying")
    assert (said["status"], said["error"]["kind"]) == ("f", "lost")
    assert "SIGKILL" in said["error"]["message"]


def test_a_time_out_ends_a_job(shared: FakeDispatcher) -> None:
    shared.offer("slow", "stubborn", timeout=200)

    said = shared.report_on("slow")
    assert said["error"]["kind"] == "timeout"
    assert "0.2 s" in said["error"]["message"]
    assert "SIGKILL" in said["error"]["message"]


def test_a_cancel_is_taken_in_hand_and_reported(shared: FakeDispatcher, shared_yard: Yard) -> None:
    shared.offer("unwanted", "polite", attempt=4)
    until(lambda: "unwanted" in runs_in(shared_yard.witness))

    assert shared.cancel("unwanted", attempt=3) == 404
    assert shared.cancel("unwanted", attempt=4) == 202

    said = shared.report_on("unwanted")
    assert (said["status"], said["attempt"]) == ("f", 4)
    assert said["error"]["kind"] == "cancelled"


def test_a_stubborn_job_is_killed_when_cancelled_and_the_slot_is_free_again(
    shared: FakeDispatcher, shared_yard: Yard
) -> None:
    shared.offer("stubborn", "stubborn")
    until(lambda: "stubborn" in runs_in(shared_yard.witness))

    assert shared.cancel("stubborn", attempt=None) == 202

    assert "SIGKILL" in shared.report_on("stubborn")["error"]["message"]
    until(lambda: shared.health_check().json()["jobs"] == 0)


def test_a_full_worker_says_so_and_takes_more_when_it_has_room(shared: FakeDispatcher) -> None:
    for name in ("full-1", "full-2"):
        assert shared.offer(name, "work", 1, 1.0).status_code == 202

    refused = shared.offer("full-3", "add", 1, 2)

    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["code"] == "unavailable"
    assert shared.health_check().json()["jobs"] == 2
    shared.report_on("full-1")
    until(lambda: shared.offer("full-3", "add", 1, 2, attempt=2).status_code == 202)
    assert shared.report_on("full-3")["attempt"] == 2
    assert shared.report_on("full-2")["result"] == 1


def test_the_same_job_twice_runs_once(shared: FakeDispatcher, shared_yard: Yard) -> None:
    statuses = [shared.offer("twice", "work", 1, 0.3).status_code for _ in range(3)]
    shared.report_on("twice")
    statuses.append(shared.offer("twice", "work", 1, 0.3).status_code)

    shared.offer("behind", "add", 1, 2)
    assert shared.report_on("behind")["result"] == 3
    assert statuses == [202] * 4
    assert len(runs_in(shared_yard.witness)["twice"]) == 1
    assert [job for job, _ in shared.reports].count("twice") == 1


def test_a_job_is_here_until_its_report_is_taken(shared: FakeDispatcher) -> None:
    shared.will_answer(503, 503)
    shared.offer("late", "add", 1, 1)
    shared.report_on("late")

    assert shared.look("late") == 200
    assert shared.look("late", attempt=None) == 200
    assert shared.look("late", attempt=2) == 404
    assert shared.offer("late", "add", 1, 1).status_code == 202
    assert shared.cancel("late") == 202
    until(lambda: shared.look("late") == 404)
    assert [job for job, _ in shared.reports].count("late") == 3


def test_a_newer_run_waits_until_the_older_is_gone(
    shared: FakeDispatcher, shared_yard: Yard
) -> None:
    shared.offer("again", "stubborn", attempt=1)
    until(lambda: "again" in runs_in(shared_yard.witness))

    refused = shared.offer("again", "add", 1, 2, attempt=2)

    assert refused.status_code == 409
    assert refused.json()["error"]["field"] == "attempt"
    until(lambda: shared.offer("again", "add", 1, 2, attempt=2).status_code == 202)
    said = shared.report_on("again")
    assert (said["status"], said["attempt"], said["result"]) == ("c", 2, 3)
    assert [job for job, _ in shared.reports].count("again") == 1
    assert shared.offer("again", "add", 1, 2, attempt=1).status_code == 409


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("job_id", ["nobody", "a%00b", "x" * 500, "..%2F"])
def test_an_unknown_job_is_not_found(shared: FakeDispatcher, method: str, job_id: str) -> None:
    assert shared.call(method, f"/jobs/{job_id}?attempt=1").status_code == 404


def test_the_parent_answers_while_handlers_hog_the_processor(shared: FakeDispatcher) -> None:
    for name in ("hog-1", "hog-2"):
        shared.offer(name, "hog", 1.5)

    seconds = []
    for _ in range(10):
        began = time.monotonic()
        assert shared.health_check().status_code == 200
        seconds.append(time.monotonic() - began)
        time.sleep(0.05)

    assert statistics.median(seconds) < 1.0
    for name in ("hog-1", "hog-2"):
        assert shared.report_on(name)["status"] == "c"
