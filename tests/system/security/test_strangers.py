"""Strangers at the door: addresses open to them, browsers that they trick, workers they invent."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from system.yard import PATIENCE, Station, Yard, free_port, until

JOBS, WORKERS = "/dispatcher/jobs/", "/dispatcher/workers/"
REBOUND = "rebound.example.com:8081"

FOREIGN: list[tuple[dict[str, str], int, str]] = [
    ({"Host": REBOUND}, 421, "misdirected"),
    ({"Host": "127.0.0.1.example.com"}, 421, "misdirected"),
    ({"Host": "0x7f000001"}, 421, "misdirected"),
    ({"Host": "203.0.113.7"}, 421, "misdirected"),
    ({"Host": "[2001:db8::1]:8081"}, 421, "misdirected"),
    ({"Origin": "https://example.com"}, 403, "forbidden"),
    ({"Origin": "null"}, 403, "forbidden"),
    ({"Sec-Fetch-Site": "cross-site"}, 403, "forbidden"),
    ({"Sec-Fetch-Site": "same-site"}, 403, "forbidden"),
]
INWARDS = [
    "169.254.169.254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "0x7f000001", "2130706433",
    "0.0.0.0", "10.0.0.1", "metadata.google.internal", "fe80::1", "64:ff9b::a9fe:a9fe",
]  # fmt: skip


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    station = shared_yard.dispatcher()
    shared_yard.worker(station)
    return station


@pytest.fixture
def web(station: Station) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=station.url, trust_env=False, timeout=PATIENCE) as client:
        yield client


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("zmq.frontend", "tcp://0.0.0.0:{}"),
        ("zmq.frontend", "tcp://*:{}"),
        ("zmq.backend", "tcp://0.0.0.0:{}"),
        ("http.host", "0.0.0.0"),
    ],
)
def test_an_address_that_others_reach_is_refused_unless_the_user_gives_his_word(
    yard: Yard, key: str, value: str
) -> None:
    value = value.format(free_port())
    station = Station(yard, "trusting", {key: value})
    config = yard.config("open", station.settings)

    done = yard.shunter("dispatcher", "--config", str(config))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    word = f"{key.partition('.')[0]}.insecure"
    assert f"{key}: found {value}, which other hosts reach" in done.stderr
    assert f"{word} = true" in done.stderr
    station.settings[word] = True
    assert station.start().process.is_alive


def test_a_worker_behind_http_that_others_reach_is_refused(yard: Yard, station: Station) -> None:
    worker = yard.http_worker(station, host="0.0.0.0", worker__http__hostname="127.0.0.1")

    assert worker.exit_code() == 2
    assert "worker.http.insecure = true" in worker.said()


@pytest.mark.parametrize(("headers", "status", "code"), FOREIGN)
def test_what_a_browser_was_tricked_into_is_refused(
    web: httpx.Client, headers: dict[str, str], status: int, code: str
) -> None:
    before = web.get(JOBS).json()
    calls: list[tuple[str, str, Any]] = [
        ("GET", JOBS, None),
        ("POST", JOBS, {"type": "add", "payload": [1, 2]}),
        ("PUT", WORKERS, {"hostname": "localhost", "port": 9, "handlers": ["add"], "maxJobs": 1}),
    ]
    for method, path, body in calls:
        answer = web.request(method, path, json=body, headers=headers)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code)
        assert error["field"] in headers
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert web.get(JOBS).json() == before
    assert "localhost" not in web.get(WORKERS).text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "127.0.0.1", "127.8.8.8", "[::1]", "localhost:8081"]
)
def test_our_own_names_are_served(web: httpx.Client, host: str) -> None:
    answer = web.get(JOBS, headers={"Host": host, "Origin": f"http://{host}"})

    assert answer.status_code == 200
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_name_that_is_listed_is_served(yard: Yard) -> None:
    station = yard.dispatcher(http__allowed_hosts=["jobs.example.com", "*.internal"])

    def status(host: str) -> int:
        return httpx.get(
            f"{station.url}{JOBS}", headers={"Host": host}, timeout=PATIENCE
        ).status_code

    assert [status("jobs.example.com"), status("a.internal:80")] == [200, 200]
    assert [status("example.com"), status("internal")] == [421, 421]


def test_a_length_and_an_encoding_at_once_are_refused(station: Station) -> None:
    body = b'{"type": "add"}'
    request = (
        f"POST {JOBS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", station.http_port), timeout=PATIENCE) as peer:
        peer.sendall(request + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        assert peer.recv(64).split()[1] == b"400"


def test_a_worker_behind_http_takes_no_job_from_a_stranger_s_page(
    yard: Yard, station: Station, web: httpx.Client
) -> None:
    yard.http_worker(station)
    found = until(lambda: [w for w in web.get(WORKERS).json()["workers"] if w["kind"] == "http"])
    address = f"http://127.0.0.1:{found[0]['port']}"

    for path in ("/health_check/", "/jobs/"):
        answer = httpx.get(address + path, headers={"Host": REBOUND}, timeout=PATIENCE)
        assert answer.status_code == 421
    forged = httpx.post(
        f"{address}/jobs/",
        json={"id": "j", "type": "add"},
        headers={"Host": REBOUND},
        timeout=PATIENCE,
    )
    assert forged.status_code == 421


@pytest.mark.parametrize("hostname", INWARDS)
def test_a_worker_is_not_believed_to_be_where_dispatchers_must_not_call(
    web: httpx.Client, hostname: str
) -> None:
    registration = {"hostname": hostname, "port": 80, "handlers": ["add"], "maxJobs": 1}

    answer = web.put(WORKERS, json=registration)

    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["field"] == "hostname"
    assert hostname not in web.get(WORKERS).text


def test_the_store_is_for_its_user_alone(yard: Yard) -> None:
    before = os.umask(0o022)
    try:
        yard.dispatcher(store__url=f"sqlite:///{yard.folder}/private.db")
    finally:
        os.umask(before)

    for path in yard.folder.glob("private.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
