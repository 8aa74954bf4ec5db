"""What is not the protocol is refused, counted and logged once; everybody else goes on."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import msgspec
import pytest

from shunter.client import Client
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry
from shunter.model.worker import Handler
from shunter.wire.messages import Advances, Beat, Hello, Kind, Returned
from system.full_peers import FullPeers, hostile_messages
from system.plain_peers import Peer, PlainPeers
from system.yard import PATIENCE, Station, until

LIMIT = 1024 * 1024

Count = Callable[[str], int]


BROKEN = {
    "no-delimiter": (b"READY",),
    "delimiter-only": (b"",),
    "full-without-delimiter": (b"PING", b"x", b"y"),
    "too-many-frames": (b"", b"READY", b"x", b"y"),
    "unknown-kind": (b"", b"HELLO", b"x"),
    "no-msgpack": (b"", b"READY", b"\xc1\xff\xff"),
    "other-msgpack": (b"", b"READY", msgspec.msgpack.encode({"a": 1})),
    "text-not-utf8": (b"", b"READY", b"\x96\xa2\xff\xfe\x01\x90\x01\x01\x01"),
}


@pytest.mark.parametrize("frames", BROKEN.values(), ids=BROKEN.keys())
def test_broken_messages_of_a_worker_are_counted_and_logged_once(
    station: Station,
    plain: PlainPeers,
    client: Client,
    count: Count,
    frames: tuple[bytes, ...],
) -> None:
    name = f"broken-{random.Random(repr(frames)).randrange(10**9)}"
    worker = plain.worker(name.encode())

    for _ in range(5):
        worker.send(*frames)

    until(lambda: count("refused_frames") == 5)
    logged = until(lambda: station.process.logged(peer=name))
    assert [entry["reason"] for entry in logged] == ["frames"]
    assert logged[0]["detail"]
    assert not any(name.encode().hex() in worker.id for worker in client.workers())


@pytest.mark.parametrize("frames", BROKEN.values(), ids=BROKEN.keys())
def test_a_client_is_told_what_was_wrong(
    plain: PlainPeers, client: Client, count: Count, frames: tuple[bytes, ...]
) -> None:
    stranger = plain.client()

    stranger.send(*frames)

    word, reason = stranger.hears()
    assert word == b"ERROR"
    assert len(reason) > 10
    assert until(lambda: count("refused_frames") + count("refused_message")) == 1


def test_deeply_nested_msgpack_is_refused(plain: PlainPeers, client: Client) -> None:
    stranger = plain.client()

    stranger.send(b"", b"SUBMIT", b"\x91" * 500_000 + b"\xc0")

    assert stranger.hears()[0] == b"ERROR"


@pytest.mark.parametrize("kind", ["JOBS", "TAKEN", "READY", "PONG", "RESULTS"])
def test_a_kind_that_is_not_for_clients_is_refused(
    plain: PlainPeers, client: Client, kind: str
) -> None:
    stranger = plain.client()

    stranger.send(b"", kind.encode(), b"\x90")

    word, reason = stranger.hears()
    assert word == b"ERROR"
    assert kind.encode() in reason


def test_a_peer_that_sends_a_huge_frame_is_cut_off_and_harms_nobody(
    plain: PlainPeers, client: Client
) -> None:
    for peer in (plain.client(), plain.worker()):
        peer.send(b"", b"x" * (4 * LIMIT))


@pytest.mark.parametrize(
    ("hello", "named"),
    [
        (Hello("w-raw", 1, (), 1, 1, version=99), "version"),
        (Hello("", 1, (), 1, 1), "worker_id"),
        (Hello("no spaces", 1, (), 1, 1), "worker_id"),
        (Hello("plain:6f6c64", 1, (), 1, 1), "worker_id"),
        (Hello("w-raw", 1, (Handler("bad\nname"),), 1, 1), "handlers"),
        (Hello("w-raw", 1, (Handler("final-failure/t"),), 1, 1), "handlers"),
        (Hello("w-raw", 1, (Handler("fine"),), 0, 1), "max_jobs"),
        (Hello("w-raw", 1, (Handler("fine", priority=10**18),), 1, 1), "priority"),
        (Hello("w-raw", 1, (Handler("fine", timeout=math.nan),), 1, 1), "timeout"),
        (Hello("w-raw", 1, (Handler("fine", timeout=-1.0),), 1, 1), "timeout"),
        (Hello("w-raw", 1, (Handler("fine", retry=Retry(factor=1e300)),), 1, 1), "retry"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_worker_that_introduces_itself_wrongly_is_told_why(
    station: Station, full: FullPeers, client: Client, hello: Hello, named: str
) -> None:
    worker = full.worker("stranger")

    worker.tell(Kind.READY, hello)

    kind, body = worker.hears()
    assert kind == b"ERROR"
    assert named in msgspec.msgpack.decode(body)[1]
    assert all(w.id != hello.worker_id for w in client.workers())


def test_a_full_worker_that_was_never_introduced_is_asked_to_say_ready(
    full: FullPeers, client: Client
) -> None:
    worker = full.worker("unknown")

    worker.beats()

    assert "READY" in worker.is_refused()


def test_a_worker_that_claims_anothers_job_is_refused(
    station: Station, full: FullPeers, client: Client, count: Count
) -> None:
    holder = full.worker("holder").introduces_itself("mine")
    thief = full.worker("thief").introduces_itself("other")
    job = client.submit("mine", 1)
    [given] = holder.takes_jobs()

    thief.secrets = holder.secrets  # it has overheard them
    thief.reports(Report(job.id, given.attempt, result=b"\x01"))
    until(lambda: count("reports_refused") == 1)
    run, advance = Held(job.id, given.attempt), Advance(job.id, given.attempt, 99.0, 100.0)
    thief.tell(Kind.RETURN, Returned(1, (run,), "mine now", thief.shows(run)))
    thief.tell(Kind.PROGRESS, Advances((advance,), thief.shows(advance)))
    until(lambda: count("reports_refused") == 2)
    holder.reports(Report(job.id, given.attempt, result=b"\x2a"))

    assert job.result(PATIENCE) == 42
    assert client.job(job.id).progress is None
    assert [e["reason"] for e in station.process.logged(peer="thief")] == ["LeaseLost"]


def test_a_report_on_another_attempt_is_refused(
    full: FullPeers, client: Client, count: Count
) -> None:
    worker = full.worker("stale").introduces_itself("stale")
    job = client.submit("stale", 1)
    [given] = worker.takes_jobs()

    for attempt in (given.attempt - 1, given.attempt + 1, -(2**63), 2**63):
        worker.reports(Report(job.id, attempt, result=b"\x01"))
    until(lambda: count("reports_refused") == 4)
    worker.reports(Report(job.id, given.attempt, result=b"\x02"))

    assert job.result(PATIENCE) == 2
    worker.reports(Report(job.id, given.attempt, result=b"\x03"))
    until(lambda: count("reports_refused") == 5)
    assert client.job(job.id).result == b"\x02"


def test_results_nobody_waits_for_are_counted(
    full: FullPeers, plain: PlainPeers, client: Client, count: Count
) -> None:
    full.worker("idle").introduces_itself("idle").reports(Report("no-such-job", 1, b"\x01"))
    plain.worker(b"named").becomes_ready().say(b"a result")
    plain.worker().becomes_ready().say(b"a result")

    until(lambda: count("reports_refused") == 2 and count("refused_result") == 1)


def test_thousands_of_hostile_messages_change_nothing(
    station: Station, plain: PlainPeers, full: FullPeers, client: Client, count: Count
) -> None:
    chance = random.Random(20_000)
    introduced = full.worker("hostile").introduces_itself("hostile")
    senders: list[Peer] = [plain.client(b"h-client"), plain.worker(b"h-worker"), introduced]
    good = client.submit_many("add", [(n, 1) for n in range(200)])

    for sender in senders:
        for message in hostile_messages(chance, 1500):
            sender.send(*message)
            while sender.hears_anything(0) is not None:
                pass

    assert [job.result(PATIENCE) for job in good] == [n + 1 for n in range(200)]
    until(lambda: count("refused_frames") + count("refused_message") > 2000)
    for peer in ("h-client", "h-worker"):
        logged = [entry["reason"] for entry in station.process.logged(peer=peer)]
        assert len(logged) == len(set(logged)) > 0
    introduced.tell(Kind.PING, Beat(1, 1, 0))
    introduced.hears_kind(Kind.PONG)
