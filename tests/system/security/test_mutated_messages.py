"""Thousands of messages that are nearly right, on every protocol, with a good client beside.

Nobody crashes or hangs, and the good client's answers are right. With SHUNTER_LONG there are
200,000 a protocol, and the good client's p99 stays within 5 times what it was (`make soak`).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import msgspec
import pytest
import zmq

from shunter.client import Client, UdpClient
from shunter.flow.runners.engines.links import LinkEnvelope
from shunter.flow.runners.engines.network import InboxAddress, Way
from shunter.flow.runners.engines.sockets import InboxSocket, PeerSocket
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.inbox import Inbox
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.key import CurvePair
from shunter.model.limits_record import LimitsChange
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry
from shunter.model.submission import Submission
from shunter.model.worker import Handler
from shunter.net.curve import ThreadGate, connect_with
from shunter.wire import messages
from shunter.wire.messages import Kind
from system.mutations import Frames, Mutator
from system.plain_peers import Peer
from system.yard import PATIENCE, Station, Yard, until
from system.zmtp_peer import memory_megabytes

IS_LONG = bool(os.environ.get("SHUNTER_LONG"))
COUNT = 200_000 if IS_LONG else 1_000
SEED = 7
MOST_SLOWER = 5.0
BEFORE = 300
"""How many answers of the good client are timed before anything happens."""

HTTP_SENDERS = 2
"""So many at once, so that the dispatcher never waits for the next."""

pack = msgspec.msgpack.encode
HELD = (Held("m-job", 1),)
LAST = 987_654_321
"""The number of the last request, and of the last heartbeat."""


def full(kind: Kind, body: object) -> Frames:
    return (b"", kind.value.encode(), pack(body))


IN_PARTS = [
    full(Kind.OFFER, messages.Offer(1, Kind.SUBMIT, 300_000)),
    full(Kind.OFFER, messages.Offer(1, Kind.RESULTS, 300_000)),
    full(Kind.PART, messages.Part(1, 0, b"x" * 1000)),
    full(Kind.GRANT, messages.Grant(1, 0, 300_000)),
    full(Kind.DECLINE, messages.Decline(1, "no", 1.0)),
]
SUBMISSION = Submission(
    "m-job", "m-1", pack([1, {"a": "b"}]), priority=1, timeout=5.0, retry=Retry(), delay=1.0,
    unique_key="m", workflow="w", run="r", keys={"tenant": "m"},
)  # fmt: skip
FRONTEND = [
    full(Kind.SUBMIT, messages.Submit(1, (SUBMISSION, Submission("m-2", "m-1", pack([]))))),
    full(Kind.CANCEL, messages.Cancel(2, ("m-job", "m-2"))),
    full(Kind.FETCH, messages.Fetch(3, ("m-job",), parts=True)),
    full(Kind.LIST, messages.JobsAsked(4, type="m-1", limit=5)),
    full(Kind.LIST, messages.JobsAsked(4, ("m-job",))),
    full(Kind.WORKERS, messages.BareRequest(5)),
    full(Kind.STATUS, messages.BareRequest(6)),
    full(Kind.LIMITS, messages.BareRequest(7)),
    full(Kind.SET_LIMITS, messages.SetLimits(8, "m-limited", LimitsChange(limit=2, by="tenant"))),
    (b"", pack(["plain"])),
    *IN_PARTS,
]
SECRETS = (bytes(16),)
LIMITS = JobLimits(limit=Limit(2, by="tenant"), rate=Rate(60, by="tenant"), fair="tenant")
BACKEND = [
    full(
        Kind.READY,
        messages.Hello("m-worker", 1, (Handler("m-1", retry=Retry(), limits=LIMITS),), 2, 1),
    ),
    full(Kind.PING, messages.Beat(2, 1, 2, HELD)),
    full(Kind.RESULTS, messages.Reports(1, 2, (Report("m-job", 1, pack(3), log="said"),), SECRETS)),
    full(Kind.RETURN, messages.Returned(2, HELD, "no room", SECRETS)),
    full(Kind.PROGRESS, messages.Advances((Advance("m-job", 1, 0.5),), SECRETS)),
    full(Kind.RESIGN, messages.Farewell("m-worker")),
    (b"", b"PING"),
    (b"", pack("a result")),
    *IN_PARTS,
]


def web(method: str, path: str, body: object = None) -> Frames:
    text = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return (f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text,)


HTTP = [
    web("POST", "/dispatcher/jobs/", {"type": "m-1", "payload": [1], "priority": 2, "delay": 5}),
    web("GET", "/dispatcher/jobs/?status=queued&limit=5"),
    web("GET", "/dispatcher/jobs/m-job"),
    web("DELETE", "/dispatcher/jobs/m-job"),
    web("PUT", "/dispatcher/workers/", {"hostname": "localhost", "port": 9, "handlers": ["m-1"]}),
    web("GET", "/dispatcher/workers/"),
    web("GET", "/healthz"),
    web("GET", "/metrics"),
]


def packet(method: str, kind: int, **params: object) -> Frames:
    whole = {"method": method, "params": params, "packet_type": kind, "transmission_id": 1}
    return (json.dumps(whole).encode(),)


UDP = [
    packet("add_task", 1, task_id="m-1", type="m-1", args=[1, 2]),
    packet("completed_task", 1, task_id="m-1", result=3),
    packet("heartbeat", 0, status="ready"),
    packet("heartbeat", 0, status="busy", task_id="m-1"),
    (json.dumps({"packet_type": 2, "transmission_id": 1}).encode(),),
    (json.dumps({"packet_type": 2, "transmission_id": 1, "result": {"a": 1}}).encode(),),
]


class GoodClient(threading.Thread):
    """Asks for the same thing again and again, and times each answer."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._ask, self._is_over = ask, threading.Event()
        self.seconds: list[float] = []
        self.faults: list[str] = []

    def once(self) -> None:
        began = time.monotonic()
        try:
            if not self._ask():
                self.faults.append("a wrong answer")
        except Exception as error:  # whatever it is, the good client did not deserve it
            self.faults.append(repr(error))
        self.seconds.append(time.monotonic() - began)

    def run(self) -> None:
        while not self._is_over.is_set():
            self.once()

    def end(self) -> None:
        self._is_over.set()
        self.join(PATIENCE)
        assert not self.is_alive(), "the good client waits for ever"

    def p99(self) -> float:
        return sorted(self.seconds)[int(0.99 * (len(self.seconds) - 1))]


@contextlib.contextmanager
def beside(protocol: str, ask: Callable[[], bool]) -> Iterator[GoodClient]:
    """Have a good client ask while something happens, and compare with how it was before."""
    before, good = timed_before(ask), GoodClient(ask)
    good.start()
    began = time.monotonic()
    try:
        yield good
    finally:
        good.end()
    compare(protocol, before, good, time.monotonic() - began)


def timed_before(ask: Callable[[], bool]) -> GoodClient:
    before = GoodClient(ask)
    for _ in range(BEFORE if IS_LONG else 20):
        before.once()
    assert before.faults == []
    return before


def compare(protocol: str, before: GoodClient, good: GoodClient, took: float) -> None:
    """Fail if the good client was served badly while it was not alone."""
    quiet, busy = before.p99(), good.p99()
    print(
        f"{protocol}: {COUNT:,} mutants in {took:.1f} s; {len(good.seconds):,} answers beside, "
        f"p99 {1000 * busy:.1f} ms, {busy / quiet:.1f} times the {1000 * quiet:.1f} ms before"
    )
    assert good.faults == []
    assert good.seconds
    if IS_LONG:
        assert busy <= MOST_SLOWER * quiet


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Iterator[Station]:
    station = shared_yard.dispatcher()
    shared_yard.worker(station)
    client = shared_yard.client(station)
    assert client.submit("add", 1, 2).result(PATIENCE) == 3
    before = memory_megabytes(station.process.pid)
    yield station
    assert station.process.is_alive
    assert memory_megabytes(station.process.pid) - before < (1000 if IS_LONG else 300)


@pytest.fixture
def client(shared_yard: Yard, station: Station) -> Client:
    return shared_yard.client(station)


@pytest.mark.timeout(3600 if IS_LONG else 300)
@pytest.mark.parametrize(("side", "corpus"), [("frontend", FRONTEND), ("backend", BACKEND)])
def test_mutants_over_zeromq(
    station: Station, client: Client, side: str, corpus: list[Frames]
) -> None:
    def ask() -> bool:
        return bool(client.submit("add", 1, 2).result(PATIENCE) == 3)

    with beside(side, ask), zmq.Context() as context:
        peers = [
            Peer(context, zmq.DEALER, getattr(station, side), b"mutant-%d" % number)
            for number in range(4)
        ]
        for number, mutant in enumerate(Mutator(corpus, SEED).mutants(COUNT)):
            peer = peers[number % len(peers)]
            peer.socket.send_multipart(mutant)
            while peer.socket.poll(0):
                peer.socket.recv_multipart()
        ends_well(peers, side)
        for peer in peers:
            peer.socket.close()


def ends_well(peers: list[Peer], side: str) -> None:
    """All has been read when the last word of each is answered."""
    for number, peer in enumerate(peers):
        name = f"last-{number}"
        hello = messages.Hello(name, 1, (Handler(name),), 1, LAST)
        asked = full(Kind.STATUS, messages.BareRequest(LAST))
        peer.socket.send_multipart(asked if side == "frontend" else full(Kind.READY, hello))
        until(lambda peer=peer, name=name: is_last(peer, name.encode()), what="the last answer")


def is_last(peer: Peer, name: bytes) -> bool:
    """True if what has come answers the last word, or names the worker that it named."""
    while peer.socket.poll(1000):
        answer = peer.socket.recv_multipart()[-1]
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            body = msgspec.msgpack.decode(answer)
            if name in answer or (isinstance(body, list) and body[:1] == [LAST]):
                return True
    return False


def hear_out(port: int, request: bytes) -> None:
    """Send a request, and read until the server hangs up, which it must do in time."""
    peer = socket.create_connection(("127.0.0.1", port), PATIENCE)
    with peer, contextlib.suppress(ConnectionError):
        peer.sendall(request)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            """There is more."""


def send_all(port: int, seed: int) -> int:
    """Send one of the senders' share of mutants, each on a connection; return how many."""
    count = 0
    for mutant in Mutator(HTTP, seed).mutants(COUNT // HTTP_SENDERS):
        hear_out(port, b"".join(mutant))
        count += 1
    return count


@pytest.mark.timeout(3600 if IS_LONG else 300)
def test_mutants_over_http(station: Station) -> None:
    with httpx.Client(base_url=station.url, trust_env=False, timeout=PATIENCE) as good:

        def ask() -> bool:
            job = good.post("/dispatcher/jobs/", json={"type": "quiet", "payload": [1]}).json()
            shown = good.get(f"/dispatcher/jobs/{job['id']}").json()
            return bool((shown["type"], shown["status"]) == ("quiet", "q"))

        with beside("http", ask), ThreadPoolExecutor(HTTP_SENDERS) as at_once:
            shares = (
                partial(send_all, station.http_port, SEED + number)
                for number in range(HTTP_SENDERS)
            )
            for sent in [at_once.submit(share) for share in shares]:
                assert sent.result() == COUNT // HTTP_SENDERS


@pytest.mark.timeout(3600 if IS_LONG else 300)
def test_mutants_over_udp(station: Station) -> None:
    with UdpClient(("127.0.0.1", station.udp_port)) as good:

        def ask() -> bool:
            return bool(good.submit("add", 1, 2).result(PATIENCE) == 3)

        with beside("udp", ask), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for number, mutant in enumerate(Mutator(UDP, SEED).mutants(COUNT)):
                stranger.sendto(b"".join(mutant)[:60_000], ("127.0.0.1", station.udp_port))
                if number % 50 == 49:
                    time.sleep(0.005)  # else the system throws them away


def envelopes(codec: EventCodec) -> Iterable[Frames]:
    kind, body = codec.encode([1, "two", {"three": 3}])
    yield pack(LinkEnvelope("mutant", 0, 1, 3, kind)), body
    yield pack(LinkEnvelope("mutant", 3, 4, 3, kind)), body
    kind, body = codec.encode([{"n": n} for n in range(20)])
    yield pack(LinkEnvelope("mutant", 0, 1, 20, kind)), body


@pytest.mark.timeout(3600 if IS_LONG else 300)
@pytest.mark.parametrize("is_keyed", [False, True], ids=["open", "keyed"])
def test_mutants_in_the_inbox_of_an_engine(is_keyed: bool) -> None:
    """The token, and where there is one the key, is known to them: else they were cut off."""
    public, secret = (text.decode() for text in zmq.curve_keypair())
    pair = CurvePair(public, secret, public) if is_keyed else None
    codec, token, faults = EventCodec({}), b"t" * 16, list[str]()
    inbox = Inbox(["good", "mutant"], limit=1000)
    got: list[int] = []
    with zmq.Context() as context:
        gate = ThreadGate(context, lambda shown: shown == public)
        listening = InboxSocket(
            context, inbox, codec, "127.0.0.1", token=token, instructions=(), curve=pair,
            complain=lambda reason: faults.append(reason) if len(faults) < 1000 else None,
        )  # fmt: skip
        address = InboxAddress("127.0.0.1", listening.port, 0)
        peer = PeerSocket(context, address, Way.TCP, token, curve=pair)
        link = peer.link("good", 1000, codec, mark=0)
        stranger = context.socket(zmq.DEALER)
        stranger.linger = 0
        stranger.setsockopt(zmq.RECONNECT_IVL, 1)
        if pair is not None:
            connect_with(stranger, pair)
        stranger.connect(address.tcp)

        def step() -> None:
            listening.receive()
            listening.grant()
            listening.look(now=time.monotonic())
            peer.receive(now=time.monotonic())
            peer.tick(now=time.monotonic())
            while (taken := inbox.take(100)) is not None:
                if isinstance(taken, list):
                    got.extend(it[1] for it in taken if isinstance(it, tuple) and it[0] == "good")
                    inbox.acknowledge(len(taken))

        def ask() -> bool:
            """Send the next event, and go on until it has come, as it must before the others."""
            number = len(got) + 1
            deadline = time.monotonic() + PATIENCE
            while not link.enqueue("good", number, [("good", number)]):
                step()
            while len(got) < number and time.monotonic() < deadline:
                listening.socket.poll(1)  # others need the machine too
                step()
            return got[-1] == number == len(got)

        before, good, began = timed_before(ask), GoodClient(ask), time.monotonic()
        for mutant in Mutator(list(envelopes(codec)), SEED).mutants(COUNT):
            with contextlib.suppress(zmq.Again):
                stranger.send_multipart([token, *mutant], zmq.NOBLOCK)
            good.once()
        compare("inbox with keys" if is_keyed else "inbox", before, good, time.monotonic() - began)
        until(lambda: step() or link.is_settled)

        stranger.close()
        peer.close()
        listening.close()
        gate.close()
    assert got == list(range(1, len(got) + 1))
    assert faults
