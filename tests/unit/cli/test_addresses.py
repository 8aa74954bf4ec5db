"""The doctor looks at the store, and at the addresses that a dispatcher would listen on."""

from __future__ import annotations

import http.server
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
import zmq

from shunter.cli import addresses
from shunter.cli.diagnosis import Finding, State, Surroundings
from shunter.settings_sources import load_settings
from shunter.wire import frames
from shunter.wire.messages import Kind, Standing

QUIET = {"zmq.enabled": False, "udp.enabled": False, "http.enabled": False}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(addresses, "PATIENCE_SECONDS", 0.3)


def surroundings(**flags: object) -> Surroundings:
    dotted = {key.replace("__", "."): value for key, value in flags.items()}
    return Surroundings(load_settings(None, {}, QUIET | dotted).settings, {})


def listening(**flags: object) -> dict[str, Finding]:
    return {finding.name: finding for finding in addresses.listening(surroundings(**flags))}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


# ---- the store


def test_a_store_that_can_be_made_is_timed_and_not_made(tmp_path: Path) -> None:
    finding = addresses.store(surroundings())

    assert finding.state is State.OK
    assert "shunter.db can be made; its disk keeps a write in" in finding.fact
    assert list(tmp_path.iterdir()) == []


def test_a_slow_disk_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shunter.store.sqlite.driver.SLOW_FSYNC_SECONDS", 0.0)

    assert addresses.store(surroundings()).state is State.WARN


def test_a_store_that_is_there_is_opened(tmp_path: Path) -> None:
    with closing(sqlite3.connect("shunter.db")) as file:
        file.execute("CREATE TABLE job (id)")

    assert "can be opened" in addresses.store(surroundings()).fact


def test_a_file_that_is_no_store_is_found() -> None:
    Path("shunter.db").write_bytes(b"not a database at all, but long enough to be read" * 20)

    finding = addresses.store(surroundings())

    assert finding.state is State.MISSING
    assert "not a database" in finding.fact


def test_a_folder_that_is_not_there_is_found(tmp_path: Path) -> None:
    finding = addresses.store(surroundings(store__url=f"sqlite:///{tmp_path}/absent/x.db"))

    assert finding.state is State.MISSING
    assert f"make {tmp_path}/absent writable" in finding.remedy


def test_a_store_in_memory_is_a_warning() -> None:
    assert addresses.store(surroundings(store__url="memory://")).state is State.WARN


def test_a_store_that_can_not_be_opened_by_this_version_is_found() -> None:
    finding = addresses.store(surroundings(store__url="sqlite:///:memory:"))

    assert finding.state is State.MISSING
    assert "not a store that this version has" in finding.fact
    assert finding.remedy.startswith("set store.url to ")


# ---- the addresses


def test_a_gateway_that_is_off_is_not_looked_at() -> None:
    assert listening() == {}


def test_free_addresses_are_ok() -> None:
    findings = listening(
        zmq__enabled=True,
        zmq__frontend=f"tcp://127.0.0.1:{free_port()}",
        zmq__backend=f"ipc://{Path.cwd()}/backend",
        udp__enabled=True,
        udp__client_address__port=0,
        http__enabled=True,
        http__host="localhost",
        http__port=free_port(),
    )

    assert {finding.state for finding in findings.values()} == {State.OK}
    assert list(findings) == ["zmq.frontend", "zmq.backend", "udp.client_address", "http.port"]
    assert "the system picks" in findings["udp.client_address"].fact


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({}, State.MISSING),
        ({"udp__insecure": True}, State.WARN),
        ({"udp__secret_file": "/etc/shunter/udp-secret"}, State.OK),
    ],
)
def test_udp_that_is_open_to_other_hosts_wants_a_secret(
    settings: dict[str, object], state: State
) -> None:
    where = {"udp__client_address__host": "0.0.0.0", "udp__client_address__port": 0}

    finding = listening(udp__enabled=True, **where, **settings)["udp.client_address"]

    assert finding.state is state
    assert ("udp.secret_file" in finding.remedy) is (state is State.MISSING)


@pytest.mark.parametrize(
    ("insecure", "state", "remedy"),
    [
        (False, State.MISSING, "zmq.insecure = true"),
        (True, State.WARN, "nothing here asks for a password"),
    ],
)
def test_an_address_open_to_other_hosts_wants_a_word_for_it(
    insecure: bool, state: State, remedy: str
) -> None:
    finding = listening(
        zmq__enabled=True,
        zmq__frontend=f"tcp://*:{free_port()}",
        zmq__backend="ipc://b",
        zmq__insecure=insecure,
    )["zmq.frontend"]

    assert finding.state is state
    assert remedy in finding.remedy


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_that_another_program_has_is_found(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", 0))
        if kind is socket.SOCK_STREAM:
            other.listen()
        port = other.getsockname()[1]

        finding = (
            listening(http__enabled=True, http__port=port)["http.port"]
            if kind is socket.SOCK_STREAM
            else listening(udp__enabled=True, udp__client_address__port=port)["udp.client_address"]
        )

    assert finding.state is State.MISSING
    assert f"127.0.0.1:{port} is in use by process" in finding.fact
    assert "to another port" in finding.remedy


def test_an_address_of_another_host_is_found() -> None:
    finding = listening(http__enabled=True, http__host="192.0.2.1")["http.port"]

    assert finding.state is State.MISSING
    assert finding.remedy == "set http.port to an address of this host"


def test_a_folder_for_ipc_must_be_there() -> None:
    findings = listening(
        zmq__enabled=True, zmq__frontend="ipc:///absent/x", zmq__backend="ipc://@y"
    )

    assert findings["zmq.frontend"].state is State.MISSING
    assert findings["zmq.backend"].state is State.OK


# ---- a dispatcher that runs already


@contextmanager
def healthy_server(status: int) -> Iterator[int]:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join(5)


@pytest.mark.parametrize(("status", "state"), [(200, State.OK), (503, State.MISSING)])
def test_a_port_where_a_dispatcher_is_healthy_is_ok(status: int, state: State) -> None:
    with healthy_server(status) as port:
        finding = listening(http__enabled=True, http__port=port)["http.port"]

    assert finding.state is state


def test_a_port_of_another_program_is_found_beside_a_dispatcher_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        healthy_server(200) as port,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.1", 0))
        flags = {
            "http__enabled": True,
            "http__port": port,
            "udp__enabled": True,
            "udp__client_address__port": other.getsockname()[1],
        }
        of_one_process = listening(**flags)
        owners = {"tcp": psutil.Process(), "udp": psutil.Process(os.getppid())}
        monkeypatch.setattr(addresses, "_owner", lambda port, kind: owners[kind])
        of_two_processes = listening(**flags)

    assert of_one_process["udp.client_address"].state is State.OK
    assert of_two_processes["http.port"].state is State.OK
    assert of_two_processes["udp.client_address"].state is State.MISSING


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (frames.full(Kind.STATUS, Standing(1, "d-1", (), {})), State.OK),
        ([b"", b"hello"], State.MISSING),
        ([b"hello"], State.MISSING),
    ],
)
def test_a_frontend_that_tells_its_status_is_ok(answer: list[bytes], state: State) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        port = router.bind_to_random_port("tcp://127.0.0.1")

        def answer_once() -> None:
            if router.poll(5000):
                peer, *_ = router.recv_multipart()
                router.send_multipart([peer, *answer])

        thread = threading.Thread(target=answer_once)
        thread.start()
        findings = listening(
            zmq__enabled=True, zmq__frontend=f"tcp://127.0.0.1:{port}", zmq__backend="ipc://b"
        )
        thread.join(5)

    assert findings["zmq.frontend"].state is state
