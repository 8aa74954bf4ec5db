"""What operators do with a running system: rerun, pause, drain. One dispatcher for all tests."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from shunter import (
    Client,
    JobFailed,
    JobNotFound,
    JobRefused,
    ResultTimeout,
    ShunterError,
    Status,
)
from system.calls import calls
from system.http.conftest import refused
from system.witness import runs_in
from system.yard import PATIENCE, Station, Yard, until

JOBS = "/dispatcher/jobs/"


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    made = shared_yard.dispatcher()
    shared_yard.worker(made, slots=2)
    return made


@pytest.fixture(scope="module")
def client(shared_yard: Yard, station: Station) -> Client:
    return shared_yard.client(station)


def post(station: Station, path: str, body: object) -> httpx.Response:
    return calls.post(station.url + path, json=body, timeout=PATIENCE)


# ---- rerun


def test_a_job_is_rerun_by_the_client_and_over_http(station: Station, client: Client) -> None:
    first = client.submit("add", 1, 2)
    assert first.result(PATIENCE) == 3

    again = client.rerun(first.id, kwargs={"left": 10, "right": 20}, new_id="again/1")
    repeated = client.rerun(first.id, kwargs={"left": 10, "right": 20}, new_id="again/1")
    made = post(station, f"{JOBS}{first.id}/rerun", {"id": "by-http"})
    edited = post(station, f"{JOBS}{first.id}/rerun", {"payload": [5, 6]})

    assert again.result(PATIENCE) == repeated.result(PATIENCE) == 30
    assert client.job("again/1").rerun_of == first.id
    assert (made.status_code, edited.status_code) == (201, 201)
    assert made.headers["location"] == f"{JOBS}by-http"
    assert made.json()["rerun_of"] == first.id
    assert client.job_handle("by-http").result(PATIENCE) == 3
    assert client.job_handle(edited.json()["id"]).result(PATIENCE) == 11
    assert post(station, f"{JOBS}{first.id}/rerun", {"id": "by-http"}).status_code == 200
    with pytest.raises(JobNotFound):
        client.rerun("nowhere")


def test_what_can_not_be_rerun_is_refused_with_its_field(station: Station, client: Client) -> None:
    waiting = client.with_options(delay=600).submit("add", 1, 2)

    with pytest.raises(JobRefused, match=r"rerun_of: job .* is queued; wait"):
        client.rerun(waiting.id)

    answer = post(station, f"{JOBS}{waiting.id}/rerun", {})
    refused(answer, 409, "conflict", "rerun_of")
    refused(post(station, f"{JOBS}nowhere/rerun", {}), 404, "not_found", "id")
    refused(post(station, f"{JOBS}{waiting.id}/rerun", {"payloads": 1}), 422, "invalid", "payloads")


def test_failed_jobs_are_counted_and_rerun_by_a_filter(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    boots = [client.submit("fail", f"boot {number}") for number in range(3)]
    other = client.submit("fail", "shoe")
    for job in (*boots, other):
        with pytest.raises(JobFailed):
            job.result(PATIENCE)
    words = ("rerun", "--type", "fail", "--error", "BOOT", "--since", "1h")

    counted = shared_yard.shunter(*words, station=station)
    assert counted.returncode == 0, counted.stderr
    assert "3 jobs: 3 failed fail; nothing is rerun without --yes" in counted.stderr
    assert len(client.jobs(type="fail")) == 4

    done = shared_yard.shunter(*words, "--yes", "--json", station=station)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert {each["rerun_of"] for each in outcomes} == {job.id for job in boots}
    for each in outcomes:
        assert client.job_handle(each["id"]).wait(PATIENCE).status is Status.FAILED


def test_a_bad_rerun_is_told_at_once(shared_yard: Yard, station: Station) -> None:
    for words, said in (
        ((), "found neither ids nor a filter"),
        (("j-1", "--type", "add"), "ids beside a filter"),
        (("j-1", "--args", "{}"), "--args"),
        (("j-1", "--kwargs", "[1]"), "--kwargs"),
        (("--status", "queued"), "--status"),
    ):
        bad = shared_yard.shunter("rerun", *words, station=station)
        assert (bad.returncode, said in bad.stderr) == (2, True), bad.stderr
    unknown = shared_yard.shunter("rerun", "nowhere", station=station)
    assert (unknown.returncode, "not found" in unknown.stdout) == (1, True)


# ---- pause and drain


def test_a_paused_type_waits_and_the_command_waits_for_what_runs(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    running = client.submit("work", 1, 1.0)
    until(lambda: running.id in runs_in(shared_yard.witness))

    done = shared_yard.shunter("pause", "work", "--wait", station=station)
    assert done.returncode == 0, done.stderr
    assert "nothing runs" in done.stdout
    assert running.result(PATIENCE) == 1

    held = client.submit("work", 2, 0.0)
    assert client.submit("add", 1, 1).result(PATIENCE) == 2
    assert held.status() is Status.QUEUED
    assert [it.id for it in client.pauses()] == ["type:work"]
    assert shared_yard.shunter("resume", "work", station=station).returncode == 0
    assert held.result(PATIENCE) == 2
    again = shared_yard.shunter("resume", "work", station=station)
    assert (again.returncode, "not held back" in again.stderr) == (2, True)


def test_pauses_over_http(station: Station, client: Client) -> None:
    place = f"{station.url}/dispatcher/pauses/"
    made = calls.put(place, json={"target": "type", "name": "echo"}, timeout=PATIENCE)
    held = client.submit("echo", 1)

    assert (made.status_code, made.json()["id"]) == (200, "type:echo")
    assert [it["id"] for it in calls.get(place).json()["pauses"]] == ["type:echo"]
    assert held.status() is Status.QUEUED
    assert calls.delete(f"{place}type:echo").status_code == 200
    assert held.result(PATIENCE) == 1
    refused(calls.delete(f"{place}type:echo"), 404, "not_found", "id")
    refused(calls.delete(f"{place}nonsense"), 404, "not_found", "id")
    unknown = calls.put(place, json={"target": "worker", "name": "w-9"}, timeout=PATIENCE)
    refused(unknown, 409, "conflict", "name")
    refused(calls.put(place, json={"target": "job", "name": "x"}), 422, "invalid", "target")


def test_a_drained_worker_finishes_what_it_has_and_gets_nothing_new(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    [worker] = [it for it in client.workers() if it.state == "alive"]
    running = client.submit("work", 3, 0.5)
    until(lambda: running.id in runs_in(shared_yard.witness))

    done = shared_yard.shunter("drain", worker.id, "--wait", station=station)
    assert done.returncode == 0, done.stderr
    assert running.result(PATIENCE) == 3

    held = client.submit("add", 2, 2)
    listed = shared_yard.shunter("workers", station=station)
    assert "draining" in listed.stdout
    assert held.status() is Status.QUEUED
    assert shared_yard.shunter("drain", worker.id, "--undo", station=station).returncode == 0
    assert held.result(PATIENCE) == 4
    for words in ((), (worker.id, "--version", "1"), ("w-9",), ("--version", "9")):
        assert shared_yard.shunter("drain", *words, station=station).returncode == 2


# ---- what people are told


def test_a_failed_job_leaves_a_line_in_both_logs(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    job = client.submit("fail", "told in the logs")
    job.wait(PATIENCE)

    for process in (station.process, shared_yard.processes("worker")[0]):
        line = until(lambda it=process: it.logged(action="fail", job=job.id))[0]
        assert (line["type"], line["attempt"]) == ("fail", 1)
        assert line["error"] == "exception: ValueError: told in the logs"


def test_a_type_that_nobody_serves_but_is_nearly_spelt_like_one(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    told = shared_yard.shunter("submit", "ad", "1", "2", station=station)

    assert told.returncode == 0
    assert "did you mean 'add'?" in told.stderr
    with pytest.raises(ResultTimeout, match=r"no worker did 'ecoh' .*did you mean 'echo'"):
        client.submit("ecoh", 1).result(0.1)
    assert client.similar == {"ecoh": "echo"}


def test_who_connects_to_the_wrong_port_is_told_which_is_right(
    shared_yard: Yard, station: Station
) -> None:
    with (
        Client(station.backend, timeout=PATIENCE) as lost,
        pytest.raises(ShunterError, match=r"connect to the dispatcher's zmq\.frontend"),
    ):
        lost.submit("add", 1, 2)

    worker = shared_yard.worker(station, backends=[station.frontend])
    until(lambda: len({line["timestamp"][:19] for line in worker.logged(action="fault")}) > 1)
    time.sleep(2)  # two more heartbeats
    told = [line["event"] for line in worker.logged(action="fault")]
    assert all("connect to the dispatcher's zmq.backend" in event for event in told)
    assert len(told) == len(set(told))  # READY and PING, each once
    worker.kill()


def test_a_worker_of_some_types_and_one_with_other_options(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    app = shared_yard.folder / "contrary.py"
    app.write_text(
        "from shunter import App\napp = App(version='9.9')\n"
        "@app.job(timeout=77)\ndef add(left: int, right: int) -> int:\n    return -1\n"
        "@app.job\ndef unserved() -> None: ...\n"
    )
    words = ("worker", "--app", str(app), "--types", "add", "--dispatcher", station.backend)
    contrary = shared_yard.process(words, "contrary")

    until(lambda: "different options: timeout" in contrary.said())
    first = shared_yard.processes("worker")[0]
    until(lambda: "different options: timeout" in first.said())
    [found] = until(lambda: [it for it in client.workers() if it.version == "9.9"])
    assert [handler.type for handler in found.handlers] == ["add"]
    assert (
        shared_yard.shunter("drain", "--version", "9.9", "--wait", station=station).returncode == 0
    )
    contrary.terminate()


def test_a_trace_goes_on_from_a_header(station: Station, client: Client) -> None:
    span = f"00-{'a' * 32}-{'b' * 16}-01"
    body = {"type": "add", "payload": [1, 2]}
    made = calls.post(
        station.url + JOBS, json=body, headers={"traceparent": span}, timeout=PATIENCE
    )

    assert made.json()["traceparent"] == client.job(made.json()["id"]).traceparent == span
    bad = post(station, JOBS, {**body, "traceparent": "no"})
    refused(bad, 422, "invalid", "traceparent")


def test_a_misspelt_type_is_told_when_it_is_paused_limited_or_put_on_a_schedule(
    shared_yard: Yard, station: Station, client: Client
) -> None:
    paused = shared_yard.shunter("pause", "ad", station=station)
    every = ("--every", "3600")
    put = shared_yard.shunter("schedule", "put", "hourly", "ad", "1", *every, station=station)
    good = shared_yard.shunter("schedule", "put", "right", "add", "1", *every, station=station)
    limited = shared_yard.shunter("limits", "set", "ad", "--limit", "5", station=station)

    client.resume("ad")
    client.limits.reset("ad")
    client.schedules.remove("hourly")
    client.schedules.remove("right")
    for told in (paused, put, limited):
        assert told.returncode == 0
        assert "no worker does 'ad' now; did you mean 'add'?" in told.stderr
    assert not good.stderr
