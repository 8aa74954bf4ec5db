"""Dispatchers and HTTP workers: registered, given jobs, checked, verified, told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from system.http.conftest import Web, refused
from system.http_peers import WORKERS, ForeignWorker
from system.yard import Station, Yard, until

QUICK = {
    "dispatcher__workers__ping_interval": 300,
    "dispatcher__workers__max_retries": 3,
    "dispatcher__workers__dead_worker_ping_interval": 300,
    "dispatcher__workers__dead_worker_max_retries": 4,
    "dispatcher__jobs__job_verification_interval": 500,
}

ROUNDS = 5
"""So often a test tries to see something in time; on a busy machine it may be late."""


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    return shared_yard.dispatcher("quick", **QUICK)


@pytest.fixture
def peers(station: Station) -> Iterator[Peers]:
    made = Peers(station)
    yield made
    made.close()


class Peers:
    """Foreign workers that leave when the test is over."""

    def __init__(self, *stations: Station) -> None:
        self._stations = stations
        self._made: list[ForeignWorker] = []

    def __call__(self, **ways: Any) -> ForeignWorker:
        worker = ForeignWorker(*self._stations, **ways)
        self._made.append(worker)
        return worker.listen()

    def close(self) -> None:
        for worker in self._made:
            if worker.id and worker.shown() is not None:
                worker.resign()
            worker.close()


def test_a_worker_registers_and_is_shown(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("add", "sum"), max_jobs=3)

    document = worker.register()

    assert document["state"] == "untried"
    schema = {
        "hostname": "127.0.0.1",
        "port": worker.port,
        "handlers": ["add", "sum"],
        "maxJobs": 3,
        "jobs": [],
        "failedPingCount": 0,
        "lastError": None,
        "isResigned": False,
        "isDead": False,
    }
    assert schema.items() <= document.items()
    assert document["lastPinged"] > 0
    until(lambda: (worker.shown() or {})["state"] == "alive")
    listed = web.raw.get(WORKERS).json()["workers"]
    assert worker.id in [each["id"] for each in listed]
    assert worker.asked("GET", "/health_check/")
    assert all(float(lease or 0) > 2.0 for lease in worker.leases)


def test_who_registers_again_is_the_same_worker(peers: Peers) -> None:
    worker = peers()

    first = worker.register()
    again = worker.register(maxJobs=7)

    assert again["id"] == first["id"]
    assert again["maxJobs"] == 7


def test_a_job_is_done_and_its_result_stored(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("http-add",))
    worker.register()

    job = web.when(web.submit("http-add", 20, 22)["id"], "c")

    assert job["result"] == 42
    assert job["execution"]["worker_id"] == worker.id
    assert job["attempt"] == 1
    until(lambda: worker.reports == [(job["id"], 200)])


def test_a_job_that_waited_is_given_to_a_worker_that_comes(web: Web, peers: Peers) -> None:
    job = web.submit("patience", 1, 2)

    peers(handlers=("patience",)).register()

    assert web.when(job["id"], "c")["result"] == 3


def test_a_result_may_arrive_before_the_202_is_read(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("hasty",))

    def reports_first(job: dict[str, Any]) -> int:
        worker.report(job, "early")
        return 202

    worker.take = reports_first
    worker.register()

    job = web.when(web.submit("hasty")["id"], "c")

    assert (job["result"], job["attempt"]) == ("early", 1)
    until(lambda: worker.reports == [(job["id"], 200)])


@pytest.mark.parametrize("status", [409, 503])
def test_a_full_worker_gives_the_job_back_and_nobody_is_blamed(
    web: Web, peers: Peers, status: int
) -> None:
    worker = peers(handlers=(f"full-{status}",))
    answers = iter([status, status])
    worker.take = lambda job: next(answers, 0) or worker.accept(job)
    worker.register()

    job = web.when(web.submit(f"full-{status}", 1)["id"], "c")

    assert (job["attempt"], job["losses"]) == (3, 0)
    posts = worker.asked("POST")
    assert posts[1] - posts[0] > 0.9


def test_a_worker_that_refuses_a_job_is_blamed_until_it_is_given_up(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("odious",))
    worker.take = lambda job: 400
    worker.register()

    job = web.submit("odious")
    seen = until(lambda: (found := web.job(job["id"]))["losses"] >= 1 and found)

    assert "did not take it: 400" in seen["history"][0]["message"]


def test_a_worker_that_never_answers_dies_and_is_forgotten(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("ghost",))
    worker.vanish()

    assert worker.register()["state"] == "untried"
    job = web.submit("ghost", 5)

    seen = until(lambda: (shown := worker.shown()) and shown["failedPingCount"] and shown)
    assert "can't connect" in seen["lastError"]
    until(lambda: (worker.shown() or {}).get("isDead"))
    until(lambda: worker.shown() is None)
    assert web.job(job["id"])["status"] in "qd"
    assert web.job(job["id"])["losses"] == 0


def test_a_dead_worker_that_had_hooks_is_asked_no_more_and_remembered(peers: Peers) -> None:
    worker = peers(handlers=("haunted",))
    worker.vanish()
    worker.register(hasHooks=True)

    seen = until(lambda: (shown := worker.shown()) and shown["isResigned"] and shown)

    assert seen["isDead"]


def test_a_dead_worker_loses_its_jobs_and_lives_again_when_it_answers(
    web: Web, peers: Peers
) -> None:
    worker = peers(handlers=("fragile",), work=lambda job: None)
    worker.register()
    job = web.submit("fragile", 1)
    until(lambda: job["id"] in worker.running)

    worker.healthy = False
    until(lambda: (worker.shown() or {})["isDead"])
    back = until(lambda: (found := web.job(job["id"]))["status"] == "q" and found)
    assert "is dead: its health check said: 500" in back["history"][0]["message"]
    assert back["losses"] == 1

    worker.running.clear()
    worker.work = lambda job: "at last"
    worker.healthy = True
    assert web.when(job["id"], "c")["result"] == "at last"
    assert (worker.shown() or {})["state"] == "alive"


def test_a_job_that_the_worker_forgot_is_found_out(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("forgotten",), work=lambda job: None)
    worker.register()
    job = web.submit("forgotten", 1)
    until(lambda: job["id"] in worker.running)
    until(lambda: len(worker.asked("GET", f"/jobs/{job['id']}")) >= 2)
    assert web.job(job["id"])["attempt"] == 1

    worker.work = lambda job: "second time"
    worker.running.clear()

    done = web.when(job["id"], "c")
    assert (done["result"], done["attempt"], done["losses"]) == ("second time", 2, 1)
    assert "does not know of it" in done["history"][0]["message"]


def test_an_answer_that_never_came_leads_to_a_look_and_not_to_a_second_run(
    web: Web, peers: Peers
) -> None:
    worker = peers(handlers=("doubtful",))
    may_end = threading.Event()
    worker.work = lambda job: may_end.wait(20.0) and "once"
    worker.take = lambda job: worker.accept(job) and 0
    worker.register()

    job = web.submit("doubtful")
    until(lambda: len(worker.asked("GET", f"/jobs/{job['id']}")) >= 3)
    may_end.set()

    done = web.when(job["id"], "c")
    assert (done["result"], done["attempt"]) == ("once", 1)
    assert len(worker.asked("POST")) == 1


def test_a_cancel_reaches_the_worker_within_a_second(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("endless",), work=lambda job: None)
    worker.register()

    def seconds_until_told() -> float:
        job = web.submit("endless")
        until(lambda: job["id"] in worker.running)

        asked_at = time.monotonic()
        answer = web.raw.delete(f"/dispatcher/jobs/{job['id']}")

        assert answer.status_code in (200, 202)
        (told_at,) = until(lambda: worker.asked("DELETE", job["id"]))
        assert web.when(job["id"], "x")["error"]["kind"] == "cancelled"
        return told_at - asked_at

    assert any(seconds_until_told() < 1.0 for _ in range(ROUNDS))


def test_an_expiry_reaches_the_worker_within_a_second(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("slow",), work=lambda job: None)
    worker.register()

    def seconds_until_told() -> float:
        job = web.submit("slow", execution={"timeout": 700})
        until(lambda: job["id"] in worker.running)
        given_at = worker.asked("POST")[-1]

        failed = web.when(job["id"], "f")

        assert failed["error"]["kind"] == "timeout"
        (told_at, *_) = until(lambda: worker.asked("DELETE", job["id"]))
        return told_at - given_at

    assert any(0.6 < seconds_until_told() < 1.7 for _ in range(ROUNDS))


def test_who_resigns_gives_its_jobs_back_at_once(web: Web, peers: Peers) -> None:
    leaving = peers(handlers=("inherited",), work=lambda job: None)
    leaving.register()
    job = web.submit("inherited", 3)
    until(lambda: job["id"] in leaving.running)

    document = leaving.resign()

    assert (document["isResigned"], document["jobs"]) == (True, [])
    assert web.job(job["id"])["status"] in "qd"
    assert web.job(job["id"])["losses"] == 0
    assert (leaving.resign())["isResigned"]
    peers(handlers=("inherited",)).register()
    assert web.when(job["id"], "c")["result"] == 3
    assert (leaving.shown() or {})["state"] == "resigned"
    assert len(leaving.asked("POST")) == 1


def test_a_worker_is_never_given_more_than_it_holds(web: Web, peers: Peers) -> None:
    worker = peers(handlers=("narrow",), max_jobs=2)
    worker.work = lambda job: time.sleep(0.05) or "done"
    worker.register()

    ids = [web.submit("narrow", number)["id"] for number in range(30)]
    for job_id in ids:
        assert web.when(job_id, "c")["attempt"] == 1

    assert worker.peak == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hostname": 5}, "hostname"),
        ({"hostname": ""}, "hostname"),
        ({"hostname": "a b"}, "hostname"),
        ({"hostname": "user@host"}, "hostname"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": "80"}, "port"),
        ({"handlers": []}, "handlers"),
        ({"handlers": "add"}, "handlers"),
        ({"handlers": ["add", ""]}, "handlers"),
        ({"handlers": ["add", 5]}, "handlers"),
        ({"maxJobs": 0}, "maxJobs"),
        ({"maxJobs": 1.5}, "maxJobs"),
        ({"max_jobs": 2}, "max_jobs"),
        ({"isDead": True}, "isDead"),
    ],
)
def test_a_bad_registration_is_refused_and_changes_nothing(
    web: Web, changes: dict[str, Any], field: str
) -> None:
    before = web.raw.get(WORKERS).json()
    body = {"hostname": "h", "port": 80, "handlers": ["add"], "maxJobs": 1, **changes}

    message = refused(web.raw.put(WORKERS, json=body), 422, "invalid", field)

    assert "send" in message
    assert [w["id"] for w in web.raw.get(WORKERS).json()["workers"]] == [
        w["id"] for w in before["workers"]
    ]


@pytest.mark.parametrize("field", ["hostname", "port", "handlers", "maxJobs"])
def test_what_is_missing_is_named(web: Web, field: str) -> None:
    body = {"hostname": "h", "port": 80, "handlers": ["add"], "maxJobs": 1}
    del body[field]

    refused(web.raw.put(WORKERS, json=body), 422, "invalid", field)


def test_unknown_workers_and_wrong_methods_are_refused(web: Web) -> None:
    refused(web.raw.get(WORKERS + "w-nobody"), 404, "not_found", "id")
    refused(web.raw.delete(WORKERS + "w-nobody"), 404, "not_found", "id")
    refused(web.raw.post(WORKERS, json={}), 405, "method_not_allowed")
    refused(web.raw.delete(WORKERS), 405, "method_not_allowed")


def test_a_zeromq_worker_is_shown_and_can_not_be_resigned_over_http(
    shared_yard: Yard, station: Station, web: Web
) -> None:
    process = shared_yard.worker(station, slots=1)
    (shown,) = until(
        lambda: [w for w in web.raw.get(WORKERS).json()["workers"] if w["kind"] == "full"]
    )

    refused(web.raw.delete(WORKERS + shown["id"]), 409, "conflict", "id")

    process.terminate()


SECRET = "a-secret-that-only-dispatchers-show"


def test_dispatchers_show_a_worker_its_secret_with_each_call_and_nobody_else(
    web: Web, station: Station, yard: Yard, peers: Peers
) -> None:
    worker, gate = peers(handlers=("guarded",)), threading.Event()
    worker.work = lambda job: 42 if gate.wait(20.0) else None
    document = worker.register(secret=SECRET)
    until(lambda: (worker.shown() or {})["state"] == "alive")

    job = web.submit("guarded")
    until(lambda: worker.asked("GET", f"/jobs/{job['id']}"), what="verification")
    web.raw.delete(f"/dispatcher/jobs/{job['id']}")
    until(lambda: worker.asked("DELETE", job["id"]), what="the cancel")
    gate.set()

    assert worker.shown_tokens == {f"Bearer {SECRET}"}
    with yard.client(station) as client:
        listed = msgspec.json.encode(client.workers()).decode()
    assert worker.id in listed
    assert SECRET not in f"{document}{listed}{web.raw.get(WORKERS).text}{station.process.said()}"


def test_a_worker_without_a_secret_is_shown_none(web: Web, peers: Peers) -> None:
    worker = peers()

    worker.register()
    until(lambda: (worker.shown() or {})["state"] == "alive")

    assert worker.shown_tokens == {None}


def test_a_worker_that_does_not_know_us_has_not_lost_the_job(web: Web, peers: Peers) -> None:
    """Its process was started anew and has another secret, of which it tells when it registers."""
    worker = peers(handlers=("forgetful",))
    worker.take = lambda job: 401
    worker.register(secret=SECRET)
    job = web.submit("forgetful")
    until(lambda: worker.asked("POST"), what="an offer")
    queued = web.when(job["id"], "q")

    worker.take = None
    worker.work = lambda job: "done"
    worker.register(secret=SECRET[::-1])

    ended = web.when(job["id"], "c")
    assert (queued["losses"], ended["losses"], ended["result"]) == (0, 0, "done")
