"""Jobs that call back when they have ended, though receivers and dispatchers come and go."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from system.http.conftest import JOBS, Web, refused
from system.receiver import Receiver
from system.yard import Station, Yard, free_port, until

QUICK = {
    "callbacks__first_delay_seconds": 0.2,
    "callbacks__max_delay_seconds": 1.0,
    "callbacks__timeout_seconds": 30.0,
}
"""A receiver on a busy machine is not told twice because it was slow to answer."""

IMPATIENT = {"callbacks__timeout_seconds": 1.0}
"""For receivers that never answer."""


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    made = shared_yard.dispatcher(**QUICK, callbacks__max_tries=4)
    shared_yard.worker(made, slots=2)
    return made


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def callback(receiver: Receiver, path: str = "/done") -> dict[str, str]:
    return {"url": receiver.url + path}


def settled(web: Web, job_id: str) -> dict[str, Any]:
    """Wait until nothing is to be done about the job's callback, and return what it says."""
    return until(
        lambda: (
            (job := web.job(job_id))["status"] in "cfx"
            and job["callback"]["due"] is None
            and job["callback"]
        ),
        what=f"the callback of {job_id}",
    )


def test_a_result_is_delivered_once_with_the_job_that_it_is_of(
    web: Web, receiver: Receiver
) -> None:
    job = web.submit("add", 1, 2, callback=callback(receiver, "/done?x=1"), workflow="w")

    [call] = receiver.heard(1)

    assert settled(web, job["id"]) == {
        "url": f"{receiver.url}/done?x=***",
        "didCallbackSuccessfully": True,
        "tries": 1,
        "error": "",
        "due": None,
    }
    assert (call.path, call.key, call.tries) == ("/done?x=1", job["id"], 1)
    assert call.headers["Content-Type"] == "application/json"
    shown = web.job(job["id"])
    del shown["payload"]
    differs = {key for key in shown if shown[key] != call.body[key]}
    assert differs == {"callback", "revision"}
    assert (call.body["result"], call.body["workflow"]) == (3, "w")
    assert "payload" not in call.body
    assert len(receiver.calls) == 1


def test_the_token_of_a_callback_goes_to_its_receiver_and_is_shown_to_nobody(
    shared_yard: Yard, station: Station, web: Web, receiver: Receiver
) -> None:
    url = f"{receiver.url}/hooks/T01/x7f3q9w2k5m8hunter2?token=hunter2&hunter2"
    made = web.raw.post(JOBS, json={"type": "add", "payload": [1, 2], "callback": {"url": url}})
    job_id = made.json()["id"]

    [call] = receiver.heard(1)
    settled(web, job_id)

    assert call.path == url.removeprefix(receiver.url)
    client = shared_yard.client(station)
    listed = next(job for job in client.jobs(limit=10) if job.id == job_id)
    shown = [made.text, web.raw.get(JOBS).text, web.raw.get(JOBS + job_id).text, str(call.body)]
    shown += [repr(client.job(job_id)), repr(listed), station.process.said()]
    assert all(job_id in each for each in shown[:-1])
    assert not any("hunter2" in each for each in shown)
    assert f"{receiver.url}/hooks/T01/***?token=***&" in web.job(job_id)["callback"]["url"]


def test_a_failed_job_calls_back_with_its_error(web: Web, receiver: Receiver) -> None:
    job = web.submit("fail", "no luck", callback=callback(receiver))

    [call] = receiver.heard(1)

    assert (call.key, call.body["status"]) == (job["id"], "f")
    assert "no luck" in call.body["error"]["message"]
    assert call.body["result"] is None
    assert settled(web, job["id"])["didCallbackSuccessfully"]


def test_a_cancelled_job_calls_back(web: Web, receiver: Receiver) -> None:
    waiting = web.submit("add", 1, 2, callback=callback(receiver), not_before=time.time() + 999)
    busy = web.submit("polite", callback=callback(receiver))
    web.when(busy["id"], "i")

    for job in (waiting, busy):
        assert web.raw.delete(JOBS + job["id"]).status_code in (200, 202)
    receiver.heard(2)

    said = {call.key: call.body["status"] for call in receiver.calls}
    assert said == {waiting["id"]: "x", busy["id"]: "x"}


def test_a_large_result_arrives_whole(web: Web, receiver: Receiver) -> None:
    job = web.submit("blob", 3, callback=callback(receiver))

    [call] = receiver.heard(1)

    assert call.body["result"] == web.job(job["id"])["result"]
    assert len(call.body["result"]["$bytes"]) > 4_000_000


def test_a_receiver_that_refuses_at_first_is_tried_again_under_the_same_key(web: Web) -> None:
    with Receiver(lambda call, before: 204 if before == 2 else 500) as receiver:
        job = web.submit("add", 1, 2, callback=callback(receiver))
        calls = receiver.heard(3)
        state = settled(web, job["id"])

    assert [(call.key, call.tries) for call in calls] == [(job["id"], n) for n in (1, 2, 3)]
    assert (state["didCallbackSuccessfully"], state["tries"], state["error"]) == (True, 3, "")


def test_a_receiver_that_comes_up_later_is_reached(web: Web) -> None:
    port = free_port()
    job = web.submit("add", 1, 2, callback={"url": f"http://localhost:{port}/x"})
    until(lambda: "can't connect" in web.job(job["id"])["callback"]["error"])

    with Receiver(port=port) as receiver:
        [call] = receiver.heard(1)
        assert settled(web, job["id"])["didCallbackSuccessfully"]

    assert call.tries > 1


def test_a_receiver_that_never_wants_it_is_given_up_and_the_job_says_why(web: Web) -> None:
    text = b"  go away\x1b[31m\nsecond line"
    with Receiver(lambda call, before: (418, {}, text)) as receiver:
        job = web.submit("add", 1, 2, callback=callback(receiver))
        state = settled(web, job["id"])
        assert len(receiver.calls) == 4

    assert (state["didCallbackSuccessfully"], state["tries"]) == (False, 4)
    assert state["error"] == (
        "given up after 4 tries (callbacks.max_tries); the last: answered with 418: go away [31m"
    )
    assert web.job(job["id"])["status"] == "c"


def test_a_receiver_that_does_not_answer_is_left_in_time(yard: Yard) -> None:
    station = yard.dispatcher(**(QUICK | IMPATIENT))
    yard.worker(station)
    client = yard.client(station)
    with Receiver(lambda call, before: None) as receiver:  # a success would take the error away
        job = client.with_options(callback=f"{receiver.url}/x").submit("add", 1, 2)
        error = until(lambda: client.job(job.id).callback.error)
        receiver.heard(2)

    assert "no answer from 127.0.0.1" in error
    assert "within 1 s" in error


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(web: Web, receiver: Receiver, status: int) -> None:
    moved = (status, {"Location": f"{receiver.url}/elsewhere"}, b"")
    with Receiver(lambda call, before: moved) as first:  # a success would take the error away
        job = web.submit("add", 1, 2, callback=callback(first))
        error = until(lambda: web.job(job["id"])["callback"]["error"])
        first.heard(2)

    assert error == f"answered with {status}, and redirects are not followed"
    assert receiver.calls == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://10.0.0.1/x", "calls to 10.0.0.1 are not allowed"),
        ("http://example.com/x", "add it to callbacks.allowed_hosts"),
        ("http://169.254.169.254/latest", "are not allowed"),
        ("http://2130706433/x", "not an IP address"),
        ("http://a:b@127.0.0.1/x", "without user and password"),
    ],
)
def test_a_host_that_is_not_allowed_is_refused_at_submission(web: Web, url: str, says: str) -> None:
    answer = web.raw.post(JOBS, json={"type": "add", "id": "refused", "callback": {"url": url}})

    assert says in refused(answer, 422, "invalid", "callback.url")
    assert web.raw.get(f"{JOBS}refused").status_code == 404


def test_callbacks_are_counted(web: Web, receiver: Receiver) -> None:
    job = web.submit("add", 1, 2, callback=callback(receiver))
    settled(web, job["id"])

    text = web.raw.get("/metrics").text

    delivered = next(line for line in text.splitlines() if line.startswith("shunter_callbacks_d"))
    assert float(delivered.split()[-1]) >= 1


def test_a_callback_is_asked_for_and_shown_on_the_command_line(
    shared_yard: Yard, station: Station, web: Web, receiver: Receiver
) -> None:
    made = shared_yard.shunter(
        "submit", "add", "1", "2", "--callback", f"{receiver.url}/cli", station=station
    )
    job_id = made.stdout.strip()
    [call] = receiver.heard(1)
    settled(web, job_id)
    shown = shared_yard.shunter("job", job_id, station=station).stdout
    bad = shared_yard.shunter(
        "submit", "add", "1", "2", "--callback", "http://10.0.0.1/", station=station
    )

    assert call.path == "/cli"
    assert "callback" in shown
    assert "delivered, 1 try" in shown
    assert bad.returncode == 2
    assert "callback.url: found 'http://10.0.0.1/'" in bad.stderr


def test_a_client_in_python_asks_for_a_callback_by_its_url(
    shared_yard: Yard, station: Station, receiver: Receiver
) -> None:
    client = shared_yard.client(station).with_options(callback=f"{receiver.url}/py")

    jobs = client.submit_many("add", [(n, n) for n in range(20)])
    calls = receiver.heard(20)

    assert {call.key: call.body["result"] for call in calls} == {
        job.id: 2 * number for number, job in enumerate(jobs)
    }
    until(lambda: all(client.job(job.id).callback.delivered for job in jobs))


# ---- more than one dispatcher, and their deaths


def two_stations(yard: Yard, **settings: Any) -> tuple[Station, Station]:
    """Two dispatchers over one store."""
    one = yard.dispatcher("one", **(QUICK | settings))
    two = yard.dispatcher("two", store__url=one.settings["store.url"], **(QUICK | settings))
    return one, two


def test_two_dispatchers_deliver_each_callback_once_between_them(yard: Yard) -> None:
    one, two = two_stations(yard)
    yard.worker(one, two, slots=4)
    client = yard.client(one, two)
    with Receiver() as receiver:
        hooked = client.with_options(callback=f"{receiver.url}/x")
        jobs = hooked.submit_many("add", [(n, 1) for n in range(100)])
        receiver.heard(100)
        until(lambda: all(client.job(job.id).callback.delivered for job in jobs))

    assert Counter(call.key for call in receiver.calls) == Counter(job.id for job in jobs)
    assert all(call.tries == 1 for call in receiver.calls)


def test_when_a_dispatcher_is_killed_during_calls_another_one_makes_them(yard: Yard) -> None:
    one, two = two_stations(yard, **IMPATIENT)
    yard.worker(one)
    with Receiver(lambda call, before: None if call.tries == 1 else 200) as receiver:
        hooked = yard.client(one).with_options(callback=f"{receiver.url}/x")
        jobs = hooked.submit_many("add", [(n, 1) for n in range(10)])
        receiver.heard(10)
        one.process.kill()

        client = yard.client(two)
        until(lambda: all(client.job(job.id).callback.delivered for job in jobs))

    first = [call for call in receiver.calls if call.tries == 1]
    assert Counter(call.key for call in first) == Counter(job.id for job in jobs)
    assert {call.key for call in receiver.calls if call.tries == 2} == {job.id for job in jobs}


def test_a_callback_outlives_a_restart_of_the_only_dispatcher(yard: Yard) -> None:
    station = yard.dispatcher(**(QUICK | IMPATIENT))
    yard.worker(station)
    port = free_port()
    hooked = yard.client(station).with_options(callback=f"http://127.0.0.1:{port}/x")
    job = hooked.submit("add", 20, 22)
    until(lambda: hooked.job(job.id).callback.tries >= 1)

    station.restart()
    with Receiver(port=port) as receiver:
        [call, *_] = receiver.heard(1)

    assert (call.key, call.body["result"]) == (job.id, 42)


def test_a_dispatcher_that_is_told_to_stop_writes_down_what_became_of_its_calls(
    yard: Yard,
) -> None:
    one, two = two_stations(yard, callbacks__timeout_seconds=300.0)
    yard.worker(one)
    with Receiver(lambda call, before: None if call.tries == 1 else 200) as receiver:
        hooked = yard.client(one).with_options(callback=f"{receiver.url}/x")
        job = hooked.submit("add", 1, 2)
        receiver.heard(1)

        one.process.signal(signal.SIGTERM)
        assert one.process.exit_code() == 0
        client = yard.client(two)
        until(lambda: client.job(job.id).callback.delivered, what="nobody waits for the first call")

    assert [call.tries for call in receiver.calls] == [1, 2]


def test_a_host_that_is_not_allowed_any_more_is_not_called(yard: Yard) -> None:
    station = yard.dispatcher(**QUICK, callbacks__max_tries=2)
    client = yard.client(station)
    with Receiver() as receiver:
        job = client.with_options(callback=f"{receiver.url}/x").submit("add", 1, 2)
        station.settings["callbacks.allowed_hosts"] = ["hooks.example.com"]
        station.restart()
        yard.worker(station)
        given_up = until(
            lambda: "given up" in (found := client.job(job.id).callback).error and found
        )

    assert "calls to 127.0.0.1 are not allowed" in given_up.error
    assert receiver.calls == []


# ---- receivers that hang


def test_while_two_hundred_calls_hang_another_receiver_is_called_within_two_seconds(
    yard: Yard,
) -> None:
    station = yard.dispatcher()
    yard.worker(station, slots=2)
    client = yard.client(station)
    with Receiver(lambda call, before: None) as hangs, Receiver() as healthy:
        client.with_options(callback=f"{hangs.url}/x").submit_many(
            "add", [(number, 1) for number in range(200)]
        )
        hangs.heard(2)
        waits = []
        for number in range(10):
            job = client.with_options(callback=f"{healthy.url}/x").submit("add", number, 1)
            job.result(timeout=30.0)
            ended = time.monotonic()
            healthy.heard(number + 1)
            waits.append(time.monotonic() - ended)
            time.sleep(0.2)
        calls_to_the_one_that_hangs = len(hangs.calls)

    assert sorted(waits)[4] < 2.0, "a busy machine may be late, but not half of the time"
    assert calls_to_the_one_that_hangs <= 8
