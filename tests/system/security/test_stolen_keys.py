"""A key in the wrong hands: each role's, tried at everything that listens.

What a key opens is exactly what the tables of the specs say, and what it does not open changes
nothing. Messages come from the lists of kinds, operations and methods, so that a new one that no
table names fails here. A dispatcher's key opens nothing, and is tried like the others.
"""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from shunter.flow.loader import load
from shunter.flow.runners.engines import messages as engine_messages
from shunter.flow.runners.engines.deployer import EngineConnection
from shunter.flow.runners.engines.network import InboxAddress
from shunter.flow.runtime.plan import planned
from shunter.gateway.http.openapi import OPERATIONS, Operation
from shunter.key_file import KeyFile, engine_pair
from shunter.model.key import RIGHTS, CurvePair, Role, udp_key
from shunter.model.limits_record import LimitsChange
from shunter.model.report import Advance, Held, Report
from shunter.model.submission import Submission
from shunter.model.worker import Handler
from shunter.net.curve import connect_with
from shunter.wire import messages
from shunter.wire.messages import Kind, Pong
from shunter.wire.udp.methods import METHODS
from system.full_peers import FullWorker
from system.keys import KeyMaker
from system.udp_peers import SignedPeer
from system.yard import PATIENCE, Station, Yard, free_port

SPEC = Path(__file__).parents[3] / "docs" / "spec"
JOBS, WORKERS = "/dispatcher/jobs/", "/dispatcher/workers/"
PLAIN_JOB = "a plain job"
TO_BACKEND = "anything at all to the backend"
FLOW = """
from shunter import Flow
from shunter.flow.sinks import Collect
from shunter.flow.sources import Items

flow = Flow("small")
flow.source(Items([1])).key_by(lambda n: n).map(lambda n: n, workers=2).sink(Collect())
"""

pack = msgspec.msgpack.encode


# ---- what the specs say


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the rows of the first table under a heading."""
    text = (SPEC / page).read_text().partition(f"\n{heading}\n")[2]
    table = re.search(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert table is not None, f"{page} has no table under {heading}"
    for line in table[0].splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def roles_in(cell: str) -> frozenset[Role]:
    named = frozenset(role for role in Role if re.search(rf"\b{role}\b", cell))
    if "anybody" in cell:
        return frozenset(Role)
    return frozenset(Role) - named if "all but" in cell else named


def told(page: str, heading: str) -> dict[str, frozenset[Role]]:
    """Return who may do what, by the words in backticks, or the whole cell."""
    return {
        what: roles_in(row[-1])
        for row in rows(page, heading)
        for what in [*re.findall(r"`([^`]+)`", row[0]), *row[0].split(", ")]
    }


BY_KIND = told("ping-pong.md", "### 10.1 Keys")
BY_OPERATION = told("http.md", "## 12. Keys and TLS")
BY_METHOD: dict[str, frozenset[Role]] = {
    method: frozenset(
        role
        for who, may in rows("udp.md", "## 6. Keys and signatures")
        for role in (roles_in(who) if "anybody else" not in who else frozenset(Role))
        if f"`{method}`" in may
    )
    for method in METHODS
}


def test_the_tables_of_the_specs_say_what_the_rights_are() -> None:
    for page, heading in (
        ("ping-pong.md", "### 10.1 Keys"),
        ("http.md", "## 12. Keys and TLS"),
    ):
        for what, opened_by, who in rows(page, heading):
            rights = [right for right in opened_by.split(", or ") if right]
            if rights and rights != ["anything"]:
                may = {role for role in Role if RIGHTS[role] & set(rights)}
                assert roles_in(who) == may, what


# ---- who tries


class Bait(NamedTuple):
    """What a thief would like to change: a job that waits, one that runs, and its worker."""

    waiting: str
    running: Held
    worker_id: str

    def message(self, kind: Kind) -> list[bytes]:
        """Write a message of a kind about these; of a kind that no peer sends, anything."""
        job, run, secrets = self.waiting, self.running, (bytes(16),)
        report = Report(run.job_id, run.attempt, b"\0")
        said: dict[Kind, messages.Message] = {
            Kind.SUBMIT: messages.Submit(1, (Submission(f"new-{job}", "unserved", pack([])),)),
            Kind.CANCEL: messages.Cancel(1, (job, run.job_id)),
            Kind.FETCH: messages.Fetch(1, (job, run.job_id)),
            Kind.LIST: messages.JobsAsked(1, (job,)),
            Kind.WORKERS: messages.BareRequest(1),
            Kind.STATUS: messages.BareRequest(1),
            Kind.LIMITS: messages.BareRequest(1),
            Kind.SET_LIMITS: messages.SetLimits(1, "unserved", LimitsChange(limit=9)),
            Kind.OFFER: messages.Offer(1, Kind.SUBMIT, 300_000),
            Kind.PART: messages.Part(1, 0, b"x"),
            Kind.GRANT: messages.Grant(1, 0, 300_000),
            Kind.DECLINE: messages.Decline(1, "no"),
            Kind.READY: messages.Hello(self.worker_id, 1, (Handler("cheap"),), 1, 1),
            Kind.PING: messages.Beat(1, 1, 1, (run,)),
            Kind.RESULTS: messages.Reports(1, 1, (report,), secrets),
            Kind.RETURN: messages.Returned(1, (run,), "mine", secrets),
            Kind.PROGRESS: messages.Advances((Advance(run.job_id, run.attempt, 1.0),), secrets),
            Kind.RESIGN: messages.Farewell(self.worker_id),
        }
        return [b"", kind.value.encode(), pack(said.get(kind, [1]))]


NOBODY = Bait("nobody", Held("nobody", 1), "nobody:w")


class Premises:
    """A dispatcher and an engine with keys, and a key of each role in the wrong hands."""

    def __init__(self, yard: Yard, context: zmq.Context[Any], web: httpx.Client) -> None:
        self._context, self._web = context, web
        self.url = f"sqlite:///{yard.folder}/keys.db"
        self.keys = KeyMaker(yard.folder, self.url)
        [dispatcher] = self.keys.made
        self.stolen = {role: self._stolen(role) for role in Role if role is not Role.DISPATCHER}
        self.stolen[Role.DISPATCHER] = dispatcher
        honest = self.keys.new("honest", Role.WORKER)
        self.station: Station = yard.dispatcher(
            store__url=self.url, auth__key_file=str(self.keys.path(dispatcher.name))
        )
        self.worker = FullWorker(context, self.station.backend, "honest:w", curve=honest.pair)
        self.bait = self._laid()

    def _stolen(self, role: Role) -> KeyFile:
        types = ("default", "cheap") if role is Role.WORKER else ()
        return self.keys.new(f"stolen-{role}", role, types=types)

    def _laid(self) -> Bait:
        self.worker.introduces_itself("precious")
        waiting, running = (
            self.ask("POST", JOBS, Role.CLIENT, json={"type": job_type}).json()["id"]
            for job_type in ("waits", "precious")
        )
        [given] = self.worker.takes_jobs()
        assert given.job_id == running
        return Bait(waiting, Held(running, given.attempt), self.worker.worker_id)

    def ask(self, method: str, path: str, role: Role | None, **how: Any) -> httpx.Response:
        headers = {} if role is None else {"Authorization": f"Bearer {self.stolen[role].token}"}
        return self._web.request(method, self.station.url + path, headers=headers, **how)

    def dealer(self, pair: CurvePair | None) -> Any:
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        if pair is not None:
            connect_with(socket, pair)
        return socket

    def connected(self, address: str, role: Role) -> Any:
        socket = self.dealer(self.stolen[role].pair)
        socket.connect(address)
        return socket

    def seen(self) -> object:
        """Return all that a thief could have changed; the honest worker says that it is there."""
        self.worker.beats(self.bait.running)
        self.worker.hears_kind(Kind.PONG)
        jobs = self.ask("GET", f"{JOBS}?limit=500", Role.READER).json()["jobs"]
        workers = self.ask("GET", WORKERS, Role.READER).json()["workers"]
        return (
            [(job["id"], job["status"], job["attempt"], job.get("progress")) for job in jobs],
            [(it["state"], it["handlers"]) for it in workers if it["id"] == self.bait.worker_id],
        )


@pytest.fixture(scope="module")
def premises(shared_yard: Yard) -> Iterator[Premises]:
    context: zmq.Context[Any] = zmq.Context()
    web = httpx.Client(trust_env=False, timeout=PATIENCE)
    try:
        yield Premises(shared_yard, context, web)
    finally:
        web.close()
        context.destroy(linger=0)


# ---- ZeroMQ


def heard(socket: Any) -> list[bytes]:
    assert socket.poll(PATIENCE * 1000), "nothing was answered"
    return list(socket.recv_multipart())


def is_refused(
    socket: Any, message: list[bytes], probe: list[bytes], is_last: Callable[[list[bytes]], bool]
) -> bool:
    """Send a message and one that is answered at once; True if the answers before refuse it."""
    socket.send_multipart(message)
    socket.send_multipart(probe)
    answers = list(itertools.takewhile(lambda it: not is_last(it), iter(lambda: heard(socket), [])))
    return any(map(is_forbidden, answers))


def is_forbidden(answer: list[bytes]) -> bool:
    return answer[1:2] == [b"ERROR"] and b" may not " in answer[2]


@pytest.mark.parametrize("role", list(Role))
def test_the_clients_side_opens_to_each_role_what_the_table_says(
    premises: Premises, role: Role
) -> None:
    socket = premises.connected(premises.station.frontend, role)
    submitters, before = BY_KIND[Kind.SUBMIT], premises.seen()
    opened = {kind for kind in Kind if role in BY_KIND.get(kind, submitters)}

    def may(message: list[bytes]) -> bool:
        probe = [b"", b"NEVER", b""]
        return not is_refused(socket, message, probe, lambda it: b"unknown kind" in it[-1])

    assert {kind for kind in set(Kind) - opened if may(premises.bait.message(kind))} == set()
    assert may([b"", b"work"]) is (role in BY_KIND[PLAIN_JOB])
    if role not in submitters:
        assert premises.seen() == before
    assert {kind for kind in opened if may(NOBODY.message(kind))} == opened
    socket.close()


@pytest.mark.parametrize("role", [role for role in Role if role not in BY_KIND[TO_BACKEND]])
def test_the_workers_side_opens_to_workers_alone(premises: Premises, role: Role) -> None:
    socket = premises.connected(premises.station.backend, role)
    before = premises.seen()
    said = [*map(premises.bait.message, Kind), [b"", b"READY"], [b"", b"a result"]]

    for message in said:
        socket.send_multipart(message)

    assert all(is_forbidden(heard(socket)) for _ in said)
    assert premises.seen() == before
    socket.close()


def test_a_worker_s_key_serves_its_types_and_touches_nothing_of_another_key(
    premises: Premises,
) -> None:
    socket = premises.connected(premises.station.backend, Role.WORKER)
    before, numbers = premises.seen(), itertools.count(1000)

    def ready(worker_id: str, job_type: str, beat: int = 1) -> list[bytes]:
        hello = messages.Hello(worker_id, 1, (Handler(job_type),), 1, beat)
        return [b"", b"READY", pack(hello)]

    def may(message: list[bytes]) -> bool:
        beat = next(numbers)
        probe = ready("stolen-worker:w", "cheap", beat)
        return not is_refused(socket, message, probe, lambda it: is_pong(it, beat))

    assert may(ready("stolen-worker:w", "cheap"))
    assert not may(ready("stolen-worker:w", "precious"))
    socket.send_multipart(ready(premises.bait.worker_id, "cheap"))
    assert b"this connection is that of stolen-worker:w" in heard(socket)[-1]
    other = premises.connected(premises.station.backend, Role.WORKER)
    other.send_multipart(ready(premises.bait.worker_id, "cheap"))
    assert b"begins with 'stolen-worker:'" in heard(other)[-1]
    for kind in set(Kind) - {Kind.READY}:
        assert may(premises.bait.message(kind)), "its role may say so, and nobody believes it"

    assert premises.seen() == before
    socket.close()
    other.close()


def is_pong(answer: list[bytes], beat: int) -> bool:
    return answer[1] == b"PONG" and messages.decode(answer[2], Pong).beat == beat


# ---- HTTP and UDP


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_http_opens_to_each_role_what_the_table_says(
    premises: Premises, operation: Operation
) -> None:
    opened = BY_OPERATION[f"{operation.method} {operation.path}"]
    bait, run = premises.bait, premises.bait.running
    before = premises.seen()
    aimed = {"show_worker": bait.worker_id, "resign": bait.worker_id, "report": run.job_id}
    report = {"status": "c", "attempt": run.attempt, "worker_id": bait.worker_id, "result": 0}

    for role in Role:
        whom = "nobody" if role in opened else aimed.get(operation.id, bait.waiting)
        path = operation.path.replace("{id}", whom)
        body = {"type": "cheap", "hostname": "127.0.0.1", "port": 9, "handlers": ["cheap"]}
        answer = premises.ask(
            operation.method, path, role, json=None if role in opened else {**report, **body}
        )
        assert (answer.status_code in (401, 403)) is (role not in opened), (role, answer.text)

    assert premises.seen() == before


def test_a_worker_s_key_over_http_reports_and_resigns_nothing_of_another(
    premises: Premises,
) -> None:
    before, bait = premises.seen(), premises.bait
    report = {"status": "c", "attempt": bait.running.attempt, "worker_id": bait.worker_id}
    path = f"{JOBS}{bait.running.job_id}/result"

    for secret in ({}, {"secret": "0" * 32}):
        answer = premises.ask("POST", path, Role.WORKER, json={**report, "result": 0, **secret})
        assert answer.status_code in (409, 422), answer.text
    resigned = premises.ask("DELETE", WORKERS + bait.worker_id, Role.WORKER)
    assert resigned.status_code == 403
    precious = {"hostname": "127.0.0.1", "port": 9, "handlers": ["precious"], "maxJobs": 1}
    assert premises.ask("PUT", WORKERS, Role.WORKER, json=precious).status_code == 403

    assert premises.seen() == before


PARAMS: dict[str, dict[str, Any]] = {
    "add_task": {"task_id": 1, "type": "unserved"},
    "heartbeat": {"status": "busy", "handlers": ["cheap"]},
    "notify_task": {"task_id": 1, "status": "success"},
    "task_log": {"task_id": 1, "log": "a line"},
}
"""What the methods need beyond the id of a task."""


@pytest.mark.parametrize("role", list(Role))
def test_udp_opens_to_each_role_what_the_table_says(premises: Premises, role: Role) -> None:
    key, numbers = premises.stolen[role], itertools.count(1)
    peer = SignedPeer(premises.station, udp_key(key.token), name=f"{role}-1", key=key.name)
    peer.introduced()
    before = premises.seen()

    def error(method: str, **params: Any) -> str | None:
        number = next(numbers)
        peer.say({"method": method, "packet_type": 1, "transmission_id": number, "params": params})
        while (answer := peer.hears())["transmission_id"] != number:
            """An earlier one, repeated."""
        return dict(answer.get("error") or {}).get("code")

    refused = {name for name, may in BY_METHOD.items() if role not in may}
    found = {name: error(name, **PARAMS.get(name, {"task_id": 1})) for name in METHODS}

    assert {name for name, code in found.items() if code == "forbidden"} == refused - UNSENDABLE
    assert {name for name, code in found.items() if code == "method"} == UNSENDABLE
    if role is Role.WORKER:
        assert error("heartbeat", status="ready", handlers=["precious"]) == "forbidden"
        run = {"task_id": premises.bait.running.job_id, "job_id": premises.bait.running.job_id}
        error("completed_task", **run, attempt=1, result=0)
    if role not in BY_METHOD["add_task"]:
        assert premises.seen() == before
    peer.close()


UNSENDABLE = {"notify_task", "perform_task"}
"""These are for dispatchers to send: no table opens them to anybody."""


# ---- engines


class EngineWithKey:
    """An engine whose port others reach, with a flow on it, so that there is an inbox too."""

    def __init__(self, premises: Premises, yard: Yard, context: zmq.Context[Any]) -> None:
        premises.keys.new("engines", Role.WORKER)
        key = premises.keys.path("engines")
        flows = yard.folder / "flows"
        flows.mkdir()
        (flows / "small.py").write_text(FLOW)
        spec = f"{flows / 'small.py'}:flow"
        config = {"store.url": premises.url, "auth.key_file": str(key)}
        self.address, self.pair = f"tcp://127.0.0.1:{free_port()}", engine_pair(str(key))
        words = ("engine", "--node", "0", "--nodes", "1", "--listen", self.address)
        words = (*words, "--flows", str(flows), "--config", str(yard.config("engine", config)))
        self.process = yard.process(words, "engine")
        self.own = EngineConnection(context, self.address, 0, curve=self.pair)
        flow = load(spec)
        plan = planned(flow, 1)
        self.own.ask(
            engine_messages.Prepare(
                run="r", token=b"t" * 16, flow=spec, fingerprint=flow.fingerprint(), node=0,
                nodes=1, network="127.0.0.1", limit=10, output_run="r",
            ),
            within=PATIENCE,
        )  # fmt: skip
        workers = [worker.id for worker in plan.workers]
        made = self.own.ask(engine_messages.Deploy(run="r", workers=workers, receivers={}))
        inboxes = msgspec.convert(made, dict[str, InboxAddress])
        self.inbox = next(iter(inboxes.values())).tcp


@pytest.fixture(scope="module")
def engine(premises: Premises, shared_yard: Yard) -> Iterator[EngineWithKey]:
    context: zmq.Context[Any] = zmq.Context()
    try:
        yield EngineWithKey(premises, shared_yard, context)
    finally:
        context.destroy(linger=0)


REQUESTS = typing.get_args(engine_messages.AnyRequest)
FIELDS = {
    engine_messages.Prepare: {
        "token": b"", "flow": "f", "fingerprint": "", "node": 0, "nodes": 1, "network": "",
        "limit": 1, "output_run": "",
    },
    engine_messages.Deploy: {"workers": [], "receivers": {}},
    engine_messages.TakeCheckpoint: {"number": 1},
}  # fmt: skip


def requests() -> Iterator[bytes]:
    for made in REQUESTS:
        run = {"run": "r"} if "run" in made.__struct_fields__ else {}
        yield engine_messages.encoded(made(**run, **FIELDS.get(made, {})))


@pytest.mark.parametrize("place", ["address", "inbox"])
def test_an_engine_lets_in_its_own_key_and_no_other_of_any_role(
    premises: Premises, engine: EngineWithKey, place: str
) -> None:
    before = engine.own.ask(engine_messages.EngineStatus())
    address = getattr(engine, place)
    shown: dict[str, CurvePair | None] = {
        str(role): CurvePair(key.public, key.secret, engine.pair.public)
        for role, key in premises.stolen.items()
    }
    shown |= {"none": None, "its own": engine.pair}

    let_in = {
        who
        for who, pair in shown.items()
        if shakes_hands(premises.dealer(pair), address, [] if who == "its own" else requests())
    }

    assert let_in == {"its own"}
    assert engine.process.is_alive
    assert engine.own.ask(engine_messages.EngineStatus()) == before


def shakes_hands(socket: Any, address: str, said: Iterable[bytes]) -> bool:
    """Connect and ask for all this; True if the other side lets the key in."""
    events = socket.get_monitor_socket(HANDSHAKE_EVENTS)
    socket.connect(address)
    for request in said:
        socket.send(request)
    assert events.poll(PATIENCE * 1000), "the handshake neither failed nor succeeded"
    event = recv_monitor_message(events)["event"]
    socket.disable_monitor()
    events.close()
    socket.close()
    return event == zmq.EVENT_HANDSHAKE_SUCCEEDED


HANDSHAKE_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)
