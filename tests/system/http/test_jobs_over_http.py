"""Jobs that come and go by HTTP, done by a real worker."""

from __future__ import annotations

import base64
import time

import pytest

from system.http.conftest import JOBS, Web, refused
from system.yard import Yard


def test_a_job_is_stored_done_and_shown(web: Web) -> None:
    answer = web.raw.post(JOBS, json={"type": "add", "payload": [1, 2], "id": "j/1"})
    job = answer.json()

    assert answer.status_code == 201
    assert answer.headers["location"] == "/dispatcher/jobs/j/1"
    assert (job["id"], job["type"], job["payload"]) == ("j/1", "add", [1, 2])
    done = web.when("j/1", "c")
    assert (done["result"], done["attempt"], done["error"]) == (3, 1, None)
    assert done["execution"]["worker_id"]
    assert abs(done["execution"]["ended"] - time.time()) < 60
    assert web.raw.get(f"{JOBS}j%2F1").json() == done


def test_named_arguments_are_an_object(web: Web) -> None:
    job = web.raw.post(JOBS, json={"type": "add", "payload": {"left": 3, "right": 4}}).json()

    assert web.when(job["id"], "c")["result"] == 7


def test_bytes_go_in_and_come_out(web: Web) -> None:
    sent = {"deep": [{"$bytes": base64.b64encode(b"\0\xff").decode()}], "x": {"$map": {"$map": 1}}}
    job = web.submit("echo", sent)

    assert web.when(job["id"], "c")["result"] == sent


def test_a_byte_result_is_base64(web: Web) -> None:
    job = web.submit("blob", 0.5)

    result = web.when(job["id"], "c", "f")["result"]

    assert base64.b64decode(result["$bytes"]) == b"\0\xff" * (256 * 1024)


def test_three_megabytes_pass(web: Web) -> None:
    data = base64.b64encode(b"\1\2\3" * 1024 * 1024).decode()
    job = web.submit("echo", {"$bytes": data})

    assert job["payload"] == [{"$bytes": data}]
    assert web.when(job["id"], "c")["result"] == {"$bytes": data}


def test_all_that_a_job_may_say_is_kept(web: Web) -> None:
    later = time.time() + 3600
    said = {
        "priority": 7,
        "workflow": "w",
        "run": "r",
        "unique": {"key": "all of it", "within": 9.0, "during": "running", "then": "replace"},
        "not_before": later,
        "callback": {"url": "http://127.0.0.1:1/x"},
        "effects": "at_least_once",
        "retry": {
            "limit": 2,
            "delay": 0.5,
            "factor": 3.0,
            "max_delay": 9.0,
            "jitter": 0.0,
            "on": ["OSError"],
            "never": ["shop.OutOfStock"],
            "on_timeout": True,
        },
    }
    job = web.submit("add", 1, 2, execution={"timeout": 2500}, **said)

    assert {key: job[key] for key in said if key != "callback"} == {
        key: value for key, value in said.items() if key != "callback"
    }
    assert job["callback"]["url"] == "http://127.0.0.1:1/x"
    assert job["callback"]["didCallbackSuccessfully"] is False
    assert job["execution"]["timeout"] == 2500
    assert job["status"] == "q"


def test_a_timeout_in_milliseconds_is_kept_to(web: Web) -> None:
    job = web.submit("work", 1, 60.0, execution={"timeout": 300})

    ended = web.when(job["id"], "f")

    assert ended["error"]["kind"] == "timeout"


def test_a_failure_is_shown(web: Web) -> None:
    job = web.submit("fail", "oh no")

    ended = web.when(job["id"], "f")

    assert ended["error"]["kind"] == "exception"
    assert "oh no" in ended["error"]["message"]
    assert ended["result"] is None


# ---- the same job twice


@pytest.mark.parametrize("name", ["id", "unique_key"])
def test_an_equal_job_is_answered_with_the_one_that_is_there(web: Web, name: str) -> None:
    first = web.submit("add", 1, 2, **{name: f"twice-{name}"})
    again = web.submit("add", 1, 2, status=200, **{name: f"twice-{name}"})

    assert again["id"] == first["id"]
    assert again["created"] == first["created"]


@pytest.mark.parametrize("name", ["id", "unique_key"])
def test_another_job_under_the_same_name_is_a_conflict(web: Web, name: str) -> None:
    first = web.submit("add", 1, 2, **{name: f"other-{name}"})

    answer = web.raw.post(JOBS, json={"type": "add", "payload": [1, 3], name: f"other-{name}"})

    assert first["id"] in refused(answer, 409, "conflict", name)


# ---- lists


def test_a_list_is_paged_newest_first(web: Web) -> None:
    ids = [web.submit("unserved", n, id=f"page-{n}")["id"] for n in range(5)]
    seen: list[str] = []
    query = {"status": "queued", "type": "unserved", "limit": 2}
    while True:
        page = web.raw.get(JOBS, params=query).json()
        assert len(page["jobs"]) <= 2
        assert all("payload" not in job for job in page["jobs"])
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        query["before"] = page["next"]

    assert seen == ids[::-1]


def test_a_list_may_be_of_one_worker(web: Web) -> None:
    job = web.when(web.submit("add", 1, 1)["id"], "c")

    page = web.raw.get(JOBS, params={"worker_id": job["execution"]["worker_id"]}).json()
    nobody = web.raw.get(JOBS, params={"worker_id": "nobody"}).json()

    assert job["id"] in [listed["id"] for listed in page["jobs"]]
    assert nobody == {"jobs": [], "next": None}


# ---- cancels


def test_a_waiting_job_is_cancelled_at_once(web: Web) -> None:
    job = web.submit("unserved", id="to-be-cancelled")

    answer = web.raw.delete(JOBS + job["id"])

    assert answer.status_code == 200
    assert answer.json()["status"] == "x"
    assert "cancelled" in refused(web.raw.delete(JOBS + job["id"]), 409, "job_final", "status")


def test_a_running_job_is_asked_to_stop(web: Web) -> None:
    job = web.when(web.submit("polite")["id"], "i")

    answer = web.raw.delete(JOBS + job["id"])

    assert answer.status_code == 202
    assert answer.json()["cancel_requested"]
    assert web.when(job["id"], "x")["error"]["kind"] == "cancelled"


# ---- the dispatcher comes and goes


def test_what_was_answered_survives_a_kill(yard: Yard) -> None:
    station = yard.dispatcher()
    with (before := Web(station)).raw:
        ids = [before.submit("add", n, n)["id"] for n in range(20)]
    station.restart()
    yard.worker(station)

    with (after := Web(station)).raw:
        assert [after.when(job_id, "c")["result"] for job_id in ids] == [2 * n for n in range(20)]
