"""Bad requests over HTTP: each gets its status, code and field, and changes nothing."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import pytest

from system.http.conftest import JOBS, LIMIT, Web, refused
from system.yard import until

JSON = {"content-type": "application/json"}
BODY_LIMIT = LIMIT * 4 // 3 + 64 * 1024


@pytest.fixture(autouse=True)
def _nothing_changes(web: Web) -> Any:
    """After each test there are as many jobs as before."""

    def jobs() -> list[str]:
        return [job["id"] for job in web.raw.get(JOBS, params={"limit": 500}).json()["jobs"]]

    before = jobs()
    yield
    assert jobs() == before


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}j/result"])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"nonsense", b"\xff\xfe", b'{"type": NaN}', b"[" * 200_000, b"1e999"]
)
def test_what_is_not_json_is_malformed(web: Web, path: str, body: bytes) -> None:
    refused(web.raw.post(path, content=body, headers=JSON), 400, "malformed")


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b'"text"'])
def test_json_that_is_no_object_is_invalid(web: Web, body: bytes) -> None:
    refused(web.raw.post(JOBS, content=body, headers=JSON), 422, "invalid")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": None}, "type"),
        ({"type": ""}, "type"),
        ({"unknown": 1}, "unknown"),
        ({"priority": "high"}, "priority"),
        ({"priority": 10**30}, "priority"),
        ({"execution": {"timeout": -1}}, "execution.timeout"),
        ({"execution": {"timeout": 1e300}}, "execution.timeout"),
        ({"payload": {"$bytes": "?"}}, "payload.$bytes"),
        ({"payload": [10**30]}, "payload.0"),
        ({"id": "../x"}, "id"),
        ({"id": "x" * 129}, "id"),
        ({"unique_key": "x" * 513}, "unique_key"),
        ({"run": "two words"}, "run"),
        ({"run": "nightly\n"}, "run"),
        ({"type": "final-failure/add"}, "type"),
        ({"id": "final-failure/x"}, "id"),
        ({"retry": {"limit": 1, "factor": 0}}, "retry.factor"),
    ],
)
def test_a_field_that_is_wrong_is_named(web: Web, fields: dict[str, Any], field: str) -> None:
    refused(web.raw.post(JOBS, json={"type": "add", **fields}), 422, "invalid", field)


def test_absurd_nesting_is_invalid(web: Web) -> None:
    body = b'{"type": "add", "payload": ' + b"[" * 500 + b"]" * 500 + b"}"

    answer = web.raw.post(JOBS, content=body, headers=JSON)

    assert answer.status_code == 422
    assert "nested too deeply" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/jsonp", "application/json; charset=latin-1"]
)
def test_another_content_type_is_not_supported(web: Web, kind: str | None) -> None:
    headers = {"content-type": kind} if kind else {}
    answer = web.raw.post(JOBS, content=b'{"type": "add"}', headers=headers)

    refused(answer, 415, "unsupported_media_type", "Content-Type")


# ---- size


def test_a_body_over_the_limit_is_too_large(web: Web) -> None:
    body = b'{"type": "add", "payload": "' + b"x" * BODY_LIMIT + b'"}'

    refused(web.raw.post(JOBS, content=body, headers=JSON), 413, "too_large")


def test_a_body_of_unknown_length_is_not_read_beyond_the_limit(web: Web) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        while sent < 100 * BODY_LIMIT:
            sent += 65536
            yield b"x" * 65536

    try:
        answer = web.raw.post(JOBS, content=endless(), headers=JSON)
    except httpx.TransportError:
        pass
    else:
        refused(answer, 413, "too_large")
    assert sent < 100 * BODY_LIMIT


def test_a_payload_over_the_limit_is_too_large(web: Web) -> None:
    body = {"type": "add", "payload": "x" * (LIMIT + 100)}

    assert f"{LIMIT:,}" in refused(web.raw.post(JOBS, json=body), 413, "too_large", "payload")


def test_a_client_that_leaves_half_way_harms_nobody(web: Web) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", web.station.http_port)) as rude:
            rude.sendall(
                b"POST /dispatcher/jobs/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 1000\r\n\r\n{"
            )

    assert web.raw.get("/readyz").status_code == 200


# ---- places and methods


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("job_id", ["unknown", "a%00b", "%F0%9F%8E%89", "x" * 2000, "%2E%2E%2Fx"])
def test_an_unknown_job_is_not_found(web: Web, method: str, job_id: str) -> None:
    refused(web.raw.request(method, JOBS + job_id), 404, "not_found", "id")


def test_an_unknown_place_is_not_found(web: Web) -> None:
    assert "/openapi.json" in refused(web.raw.get("/nowhere"), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", JOBS, {"GET", "HEAD", "POST"}),
        ("DELETE", JOBS, {"GET", "HEAD", "POST"}),
        ("POST", f"{JOBS}j", {"GET", "HEAD", "DELETE"}),
        ("PATCH", f"{JOBS}j", {"GET", "HEAD", "DELETE"}),
        ("PUT", f"{JOBS}j/result", {"POST"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("DELETE", "/metrics", {"GET", "HEAD"}),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    web: Web, method: str, path: str, allowed: set[str]
) -> None:
    answer = web.raw.request(method, path)

    refused(answer, 405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=z", "status"),
        ("status=", "status"),
        ("type=a%20b", "type"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("limit=1e2", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("colour=red", "colour"),
        ("before=%00", "before"),
    ],
)
def test_a_query_that_is_wrong_is_named(web: Web, query: str, field: str) -> None:
    refused(web.raw.get(f"{JOBS}?{query}"), 422, "invalid", field)


def test_bad_requests_are_counted(web: Web) -> None:
    before = web.station.counters().get("refused_http_invalid", 0)

    web.raw.post(JOBS, content=json.dumps({"typ": 1}), headers=JSON)

    until(lambda: web.station.counters()["refused_http_invalid"] == before + 1)


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "add", "type": "fail", "payload": [1, 2]}',
        b'{"type": "add", "payload": [{"a": 1, "a": 2}]}',
        b'{"type": "add", "execution": {"timeout": 1000, "timeout": 5}}',
        b'{"type": "add", "ty\\u0070e": "fail"}',
    ],
)
def test_a_key_that_stands_twice_is_malformed(web: Web, body: bytes) -> None:
    said = refused(web.raw.post(JOBS, content=body, headers=JSON), 400, "malformed")

    assert "twice in one object" in said
