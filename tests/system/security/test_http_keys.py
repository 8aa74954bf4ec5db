"""HTTP with keys and TLS: one real dispatcher, one real worker, and those who should not get in."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from authority import Authority, serial_at, serial_in
from shunter.key_file import KeyFile
from shunter.model.key import Role
from system.http_peers import ForeignWorker
from system.keys import KeyMaker
from system.yard import PATIENCE, Process, Station, Yard, free_port, until

JOBS, WORKERS, AUDIT = "/dispatcher/jobs/", "/dispatcher/workers/", "/dispatcher/audit/"
WITHIN = 10.0
"""How soon a revoked key and a new certificate count: 5 s, and as much for a busy machine."""

numbers = itertools.count()


class Gate:
    """The dispatcher, its keys, and the authority that signed its certificate."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.authority = Authority(yard.folder)
        self.certificate, private = self.authority.sign("dispatcher")
        url = f"sqlite:///{yard.folder}/dispatcher.db"
        self.keys = KeyMaker(yard.folder, url)
        [dispatcher] = self.keys.made
        others = (role for role in Role if role is not Role.DISPATCHER)
        self.by_role = {role: self.keys.new(f"the-{role}", role) for role in others}
        self.by_role[Role.DISPATCHER] = dispatcher
        caller, its_key = self.authority.sign("caller")
        self.station: Station = yard.dispatcher(
            store__url=url,
            auth__key_file=str(self.keys.path("the-dispatcher")),
            auth__ca_file=str(self.authority.path),
            auth__tls_certificate=str(caller),
            auth__tls_key=str(its_key),
            http__tls_certificate=str(self.certificate),
            http__tls_key=str(private),
        )
        self.trust = ssl.create_default_context(cafile=str(self.authority.path))
        self.web = httpx.Client(
            base_url=self.station.url, verify=self.trust, trust_env=False, timeout=PATIENCE
        )

    def ask(
        self, method: str, path: str, key: KeyFile | Role | str | None, **how: Any
    ) -> httpx.Response:
        """Send a request with somebody's key, or some token."""
        shown = self.by_role[key] if isinstance(key, Role) else key
        token = shown.token if isinstance(shown, KeyFile) else shown
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.web.request(method, path, headers=headers, **how)

    def new(self, role: Role, **limits: Any) -> KeyFile:
        """Make a key, and wait until the dispatcher has read it."""
        made = self.keys.new(f"key-{next(numbers)}", role, **limits)
        until(lambda: self.ask("GET", "/openapi.json", made).status_code != 401, what="a new key")
        return made

    def register(self, key: KeyFile, port: int, *types: str, **fields: Any) -> httpx.Response:
        document = {"hostname": "127.0.0.1", "port": port, "handlers": types, "maxJobs": 1}
        return self.ask("PUT", WORKERS, key, json={**document, **fields})

    def worker(self, worker_id: str) -> dict[str, Any]:
        return self.ask("GET", WORKERS + worker_id, Role.READER).json()

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self.station.http_port, timeout=PATIENCE, context=self.trust
        )

    def serial(self) -> int:
        """Return the number of the certificate that a new connection is shown."""
        address = ("127.0.0.1", self.station.http_port)
        with (
            socket.create_connection(address, PATIENCE) as plain,
            self.trust.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return serial_in(shown)


@pytest.fixture(scope="module")
def gate(shared_yard: Yard) -> Iterator[Gate]:
    made = Gate(shared_yard)
    with made.web:
        yield made
        assert made.station.process.is_alive
        logged = "".join(path.read_text() for path in shared_yard.folder.glob("*.stderr"))
        assert [key.name for key in made.keys.made if key.token in logged] == []


@pytest.fixture(scope="module")
def worker(gate: Gate) -> Process:
    """A worker of ours, which demands a certificate of dispatchers as well."""
    certificate, private = gate.authority.sign("worker")
    gate.keys.new("shed", Role.WORKER)
    return gate.yard.http_worker(
        gate.station,
        auth__key_file=str(gate.keys.path("shed")),
        auth__ca_file=str(gate.authority.path),
        worker__http__tls_certificate=str(certificate),
        worker__http__tls_key=str(private),
        worker__http__tls_client_ca=str(gate.authority.path),
    )


def asked_once(connection: http.client.HTTPSConnection, token: str) -> int:
    connection.request("GET", JOBS, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_who_shows_no_key_that_counts_hears_one_answer(gate: Gate) -> None:
    revoked = gate.new(Role.OPERATOR)
    gate.keys.revoke(revoked.name)
    until(lambda: gate.ask("GET", JOBS, revoked).status_code == 401, within=WITHIN)

    answers = [gate.ask("GET", JOBS, shown) for shown in (None, "unknown", revoked)]

    assert {answer.status_code for answer in answers} == {401}
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
    assert len({answer.content for answer in answers}) == 1
    assert len({tuple(sorted(set(answer.headers) - {"date"})) for answer in answers}) == 1
    assert "Authorization: Bearer TOKEN" in answers[0].json()["error"]["message"]


def test_refusals_are_logged_once_for_a_peer_and_counted(gate: Gate) -> None:
    for _ in range(20):
        gate.ask("GET", JOBS, "guess")

    told = gate.station.process.logged(action="refuse", reason="http_unauthorized")
    assert len(told) == 1
    counted = [
        line
        for line in gate.ask("GET", "/metrics", Role.READER).text.splitlines()
        if line.startswith("shunter_refused_total") and "http_unauthorized" in line
    ]
    assert float(counted[0].rpartition(" ")[2]) >= 20


def test_a_revoked_key_loses_its_open_connection_within_seconds(gate: Gate) -> None:
    key, connection = gate.new(Role.CLIENT), gate.connection()
    assert asked_once(connection, key.token) == 200
    used = connection.sock

    gate.keys.revoke(key.name)
    until(lambda: asked_once(connection, key.token) == 401, within=WITHIN, what="revoked")

    assert connection.sock is used is not None
    connection.close()


def test_a_new_certificate_is_shown_while_connections_stay(gate: Gate) -> None:
    token, connection = gate.by_role[Role.CLIENT].token, gate.connection()
    assert asked_once(connection, token) == 200
    used, first = connection.sock, serial_at(gate.certificate)
    assert gate.serial() == first

    whole = gate.certificate.read_bytes()
    gate.certificate.write_bytes(whole[: len(whole) // 2])
    until(lambda: gate.station.process.logged(action="tls", level="error"), what="a broken file")
    assert gate.serial() == first

    gate.authority.sign("dispatcher")
    until(lambda: gate.serial() == serial_at(gate.certificate), within=WITHIN, what="the new one")

    assert serial_at(gate.certificate) != first
    assert asked_once(connection, token) == 200
    assert connection.sock is used
    connection.close()


def test_plain_http_is_not_spoken_where_tls_is(gate: Gate) -> None:
    url = f"http://127.0.0.1:{gate.station.http_port}/healthz"
    with pytest.raises(httpx.HTTPError):
        httpx.get(url, trust_env=False, timeout=PATIENCE)


def test_a_worker_behind_https_does_a_job(gate: Gate, worker: Process) -> None:
    posted = gate.ask("POST", JOBS, Role.CLIENT, json={"type": "add", "payload": [20, 22]})
    assert posted.status_code == 201, posted.text
    path = JOBS + posted.json()["id"]

    job = until(
        lambda: (it := gate.ask("GET", path, Role.CLIENT).json())["status"] in "cfx" and it,
        what="the job's end",
    )

    assert (job["status"], job["result"]) == ("c", 42), worker.said()
    worker_id = job["execution"]["worker_id"]
    listed = until(
        lambda: (it := gate.worker(worker_id))["state"] == "alive" and it, what="its health"
    )
    assert (listed["key"], listed["scheme"]) == ("shed", "https")


@pytest.mark.parametrize("token", [None, "wrong", "the token of its key", "an operator's"])
def test_a_worker_hears_nobody_without_its_secret(
    gate: Gate, worker: Process, token: str | None
) -> None:
    place = until(lambda: _place_of(gate, "shed"), what="its registration")
    tokens = {made.name: made.token for made in gate.keys.made}
    shown = {"the token of its key": tokens["shed"], "an operator's": tokens["the-operator"]}
    caller = ssl.create_default_context(cafile=str(gate.authority.path))
    folder = gate.yard.folder
    caller.load_cert_chain(str(folder / "caller.crt"), str(folder / "caller.key"))
    headers = {"Authorization": f"Bearer {shown.get(token, token)}"} if token else {}
    headers["Shunter-Lease"] = "0"
    with httpx.Client(
        base_url=place, verify=caller, trust_env=False, headers=headers, timeout=PATIENCE
    ) as stranger:
        answers = [
            stranger.get("/health_check/"),
            stranger.post(JOBS.removeprefix("/dispatcher"), json={"id": "j"}),
            stranger.delete("/jobs/j?attempt=1"),
        ]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
    assert not worker.logged(action="self_destruct")
    with pytest.raises(httpx.HTTPError), httpx.Client(verify=gate.trust, trust_env=False) as bare:
        bare.get(f"{place}/health_check/", timeout=PATIENCE)


def test_the_secret_of_a_worker_is_shown_to_nobody(gate: Gate) -> None:
    key, secret, port = gate.new(Role.WORKER), "a-secret-of-a-worker-0123456789", free_port()

    answer = gate.register(key, port, "hidden", secret=secret)

    assert answer.status_code == 201
    shown = answer.text + gate.ask("GET", WORKERS, Role.OPERATOR).text
    short = gate.register(key, port, "hidden", secret="short-secret")
    assert (short.status_code, short.json()["error"]["field"]) == (422, "secret")
    shown += short.text + gate.station.process.said()
    assert answer.json()["id"] in shown
    assert secret not in shown
    assert "short-secret" not in shown


def test_a_key_serves_its_own_types_and_addresses_only(gate: Gate) -> None:
    key, other = gate.new(Role.WORKER, types=("paint",)), gate.new(Role.WORKER)
    port = free_port()

    refused = gate.register(key, port, "paint", "print")
    assert refused.status_code == 403
    assert refused.json()["error"]["field"] == "handlers"
    assert "may serve paint, and not print" in refused.json()["error"]["message"]
    registered = gate.register(key, port, "paint")
    assert registered.status_code == 201
    worker_id = registered.json()["id"]
    taken = gate.register(other, port, "paint")
    assert (taken.status_code, taken.json()["error"]["field"]) == (409, "port")
    assert gate.ask("DELETE", WORKERS + worker_id, other).status_code == 403

    assert gate.register(key, port, "paint").status_code == 201
    assert gate.ask("DELETE", WORKERS + worker_id, key).status_code == 200
    assert gate.register(other, port, "print").json()["key"] == other.name


def test_a_worker_whose_key_is_revoked_gets_no_more_jobs(gate: Gate) -> None:
    key, heir = gate.new(Role.WORKER), gate.new(Role.WORKER)
    foreign = ForeignWorker(work=lambda job: None).listen()
    worker_id = gate.register(key, foreign.port, "mourn", secret="s" * 32).json()["id"]
    job_id = gate.ask("POST", JOBS, Role.CLIENT, json={"type": "mourn"}).json()["id"]
    until(lambda: foreign.running, what="its job")

    gate.keys.revoke(key.name)
    gone = until(
        lambda: (it := gate.worker(worker_id))["state"] == "resigned" and it, within=WITHIN
    )

    assert "no key that counts" in gone["lastError"]
    until(lambda: foreign.asked("DELETE", job_id), what="that it is told to stop")
    until(
        lambda: gate.ask("GET", JOBS + job_id, Role.READER).json()["status"] == "q",
        what="the job in the queue",
    )
    assert foreign.shown_tokens == {"Bearer " + "s" * 32}
    assert gate.register(heir, foreign.port, "else").status_code == 201
    foreign.close()


def test_what_operators_do_is_written_down_and_what_clients_do_is_not(gate: Gate) -> None:
    operator = gate.new(Role.OPERATOR)
    worker_key = gate.new(Role.WORKER)
    worker_id = gate.register(worker_key, free_port(), "idle").json()["id"]
    jobs = [
        gate.ask("POST", JOBS, Role.CLIENT, json={"type": "never-done"}).json()["id"]
        for _ in range(3)
    ]
    before = time.time()

    assert gate.ask("DELETE", JOBS + jobs[0], Role.CLIENT).status_code == 200
    for job_id in jobs[1:]:
        assert gate.ask("DELETE", JOBS + job_id, operator).status_code == 200
    assert gate.ask("POST", f"{JOBS}{jobs[1]}/rerun", operator, json={}).status_code == 201
    assert gate.ask("POST", f"{JOBS}{jobs[0]}/rerun", Role.CLIENT, json={}).status_code == 201
    assert gate.ask("DELETE", WORKERS + worker_id, operator).status_code == 200

    first = gate.ask("GET", f"{AUDIT}?limit=2", operator).json()
    second = gate.ask("GET", f"{AUDIT}?limit=500&before={first['next']}", operator).json()
    lines = [*first["entries"], *second["entries"]]
    mine = [line for line in lines if line["actor"] == operator.name]
    assert [(line["action"], line["target"]) for line in mine] == [
        ("resign worker", worker_id),
        ("rerun job", jobs[1]),
        ("cancel job", jobs[2]),
        ("cancel job", jobs[1]),
    ]
    assert all(before - 5 < line["at"] < time.time() + 5 for line in mine)
    assert "127.0.0.1" in mine[0]["detail"]
    assert len(first["entries"]) == 2
    assert second["next"] is None
    assert jobs[0] not in json.dumps(lines)
    assert gate.ask("GET", f"{AUDIT}?limit=0", operator).status_code == 422


def test_a_key_file_that_others_may_read_starts_no_worker(gate: Gate) -> None:
    gate.keys.new("careless", Role.WORKER)
    path: Path = gate.keys.path("careless")
    path.chmod(0o640)

    started = gate.yard.http_worker(gate.station, auth__key_file=str(path))

    assert started.exit_code() == 2
    assert f"chmod 600 {path}" in started.said()


def _place_of(gate: Gate, key: str) -> str | None:
    """Return where the worker of a key listens."""
    workers = gate.ask("GET", WORKERS, Role.READER).json()["workers"]
    found = [it for it in workers if it["key"] == key]
    return f"{found[0]['scheme']}://127.0.0.1:{found[0]['port']}" if found else None
