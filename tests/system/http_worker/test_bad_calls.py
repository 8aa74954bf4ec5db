"""Bad calls to a worker, and bad settings of one: each is answered in words, and starts nothing."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from system.http_worker.fake_dispatcher import FakeDispatcher
from system.yard import WITNESS_APP, Yard

JSON = {"content-type": "application/json"}
GOOD = {"id": "bad", "type": "add", "payload": [1, 2], "attempt": 1,
        "execution": {"worker_id": "w-fake"}}  # fmt: skip


def refused(answer: httpx.Response, status: int, code: str, field: str | None = None) -> str:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["field"]) == (code, field), error
    return str(error["message"])


@pytest.fixture(autouse=True)
def _nothing_starts(shared: FakeDispatcher) -> Any:
    yield
    assert shared.health_check().json()["jobs"] == 0
    assert shared.reports == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"id": NaN}', b"[" * 100_000])
def test_what_is_not_json_is_malformed(shared: FakeDispatcher, body: bytes) -> None:
    refused(shared.call("POST", "/jobs/", content=body, headers=JSON), 400, "malformed")


@pytest.mark.parametrize("body", [b"[]", b"5", b"null"])
def test_json_that_is_no_object_is_invalid(shared: FakeDispatcher, body: bytes) -> None:
    refused(shared.call("POST", "/jobs/", content=body, headers=JSON), 422, "invalid")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": None}, "id"),
        ({"id": "../x"}, "id"),
        ({"id": "x" * 129}, "id"),
        ({"type": None}, "type"),
        ({"type": "paint"}, "type"),
        ({"attempt": None}, "attempt"),
        ({"attempt": "1"}, "attempt"),
        ({"attempt": 1.5}, "attempt"),
        ({"attempt": -1}, "attempt"),
        ({"attempt": 2**31}, "attempt"),
        ({"execution": None}, "execution"),
        ({"execution": {}}, "execution.worker_id"),
        ({"execution": {"worker_id": "w-fake", "timeout": -5}}, "execution.timeout"),
        ({"payload": {"$bytes": "?"}}, "payload.$bytes"),
        ({"payload": {"$float": "big"}}, "payload.$float"),
    ],
)
def test_a_field_that_is_wrong_is_named(
    shared: FakeDispatcher, changes: dict[str, Any], field: str
) -> None:
    refused(shared.call("POST", "/jobs/", json={**GOOD, **changes}), 422, "invalid", field)


@pytest.mark.parametrize("field", ["id", "type", "attempt", "execution"])
def test_a_field_that_is_missing_is_named(shared: FakeDispatcher, field: str) -> None:
    body = {key: value for key, value in GOOD.items() if key != field}

    message = refused(shared.call("POST", "/jobs/", json=body), 422, "invalid", field)

    assert "missing" in message


def test_an_unknown_type_is_told_what_there_is(shared: FakeDispatcher) -> None:
    answer = shared.call("POST", "/jobs/", json={**GOOD, "type": "paint"})

    assert "echo" in refused(answer, 422, "invalid", "type")


def test_a_job_for_another_worker_is_not_taken(shared: FakeDispatcher) -> None:
    body = {**GOOD, "execution": {"worker_id": "w-other"}}

    refused(shared.call("POST", "/jobs/", json=body), 409, "conflict", "execution.worker_id")


def test_another_content_type_is_not_supported(shared: FakeDispatcher) -> None:
    answer = shared.call("POST", "/jobs/", content=b"{}", headers={"content-type": "text/plain"})

    refused(answer, 415, "unsupported_media_type", "Content-Type")


def test_a_body_over_the_limit_is_too_large(shared: FakeDispatcher) -> None:
    body = {**GOOD, "payload": ["x" * (4 * 1024 * 1024)]}

    refused(shared.call("POST", "/jobs/", json=body), 413, "too_large")


@pytest.mark.parametrize("attempt", ["x", "-1", "1.0", "", "9" * 30, "1&attempt=2"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_attempt_that_is_no_number_is_named(
    shared: FakeDispatcher, method: str, attempt: str
) -> None:
    answer = shared.call(method, f"/jobs/bad?attempt={attempt}")

    refused(answer, 422, "invalid", "attempt")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/jobs/", {"POST"}),
        ("DELETE", "/jobs/", {"POST"}),
        ("PUT", "/jobs/", {"POST"}),
        ("POST", "/jobs/x", {"GET", "HEAD", "DELETE"}),
        ("POST", "/health_check/", {"GET", "HEAD"}),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    shared: FakeDispatcher, method: str, path: str, allowed: set[str]
) -> None:
    answer = shared.call(method, path)

    refused(answer, 405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed


def test_nothing_else_is_served(shared: FakeDispatcher) -> None:
    assert "/health_check/" in refused(shared.call("GET", "/nowhere"), 404, "not_found")


def test_a_lease_that_is_nonsense_is_no_lease(shared: FakeDispatcher) -> None:
    for value in ("soon", "-1", "nan", "1e999"):
        answer = shared.call("GET", "/health_check/", headers={"Shunter-Lease": value}, lease=None)
        assert answer.status_code == 200


def test_a_caller_that_leaves_half_way_harms_nobody(shared: FakeDispatcher) -> None:
    port = shared.registrations[-1]["port"]
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port)) as rude:
            rude.sendall(
                b"POST /jobs/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 1000\r\n\r\n{"
            )

    assert shared.health_check().status_code == 200


# ---- the command line


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--listen", "127.0.0.1:9000"], ("--listen", "beside --http")),
        (["--http", "--listen", "9000"], ("--listen", "host:port")),
        (["--http", "--listen", "127.0.0.1:x"], ("--listen", "worker.http.port", "0 to 65535")),
        (["--http", "--listen", "0.0.0.0:0"], ("worker.http", "a hostname")),
        (["--http", "--dispatcher", "tcp://127.0.0.1:1"], ("--dispatcher", "http://host:port")),
        (["--dispatcher", "http://127.0.0.1:1"], ("--dispatcher", "tcp://host:port")),
    ],
)
def test_a_wrong_command_says_what_to_type(
    shared_yard: Yard, words: list[str], named: tuple[str, ...]
) -> None:
    done = shared_yard.shunter("worker", "--app", WITNESS_APP, *words)

    assert done.returncode == 2
    assert all(word in done.stderr for word in named), done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_in_use_is_said_clearly(
    shared: FakeDispatcher, shared_yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_WITNESS", str(shared_yard.witness))
    port = shared.registrations[-1]["port"]

    done = shared_yard.shunter(
        "worker", "--app", WITNESS_APP, "--http", "--listen", f"127.0.0.1:{port}"
    )

    assert done.returncode == 2
    assert "worker.http.port" in done.stderr
    assert "can't be bound" in done.stderr
