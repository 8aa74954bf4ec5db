"""Peers that fill the memory of others: messages without an end, huge frames, answers unread."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from shunter.client import Client
from shunter.flow.runners.engines.messages import EngineStatus, encoded
from shunter.wire.messages import JobsAsked
from system import zmtp_peer
from system.flow.engines import engines
from system.keys import Door
from system.yard import PATIENCE, Station, Yard, until
from system.zmtp_peer import LAST, MORE, ZmtpPeer, announced, frame, memory_megabytes

MEGABYTE = 1024 * 1024
FAR_TOO_MUCH = 600 * MEGABYTE
MOST_MEGABYTES = 350
"""By how much a process may grow, whatever peers do; it was by 800 to 1,500."""

GIVEN_BACK_MEGABYTES = 64
"""What may be left of that when they were cut off."""

ENDLESS = {"large frames": (MEGABYTE, 1), "frames": (64 * 1024, 1), "empty frames": (0, 20_000)}
"""Of which size they are, and how many go at once."""


@pytest.fixture(scope="module")
def open_door(shared_yard: Yard) -> Door:
    return Door(shared_yard, is_keyed=False)


@pytest.fixture(scope="module")
def keyed_door(shared_yard: Yard) -> Door:
    return Door(shared_yard, is_keyed=True)


@pytest.fixture(params=["open", "keyed"])
def door(request: pytest.FixtureRequest) -> Door:
    found: Door = request.getfixturevalue(f"{request.param}_door")
    return found


@pytest.fixture
def client(door: Door) -> Iterator[Client]:
    with door.client() as client:
        assert is_served(client)
        yield client


def is_served(client: Client) -> bool:
    """True if a job of somebody else is accepted and found."""
    job = client.submit("nobody", 1, 2)
    return client.job(job.id).id == job.id


@pytest.fixture(autouse=True)
def closed_peers() -> Iterator[None]:
    """Close what a test has opened, also where it fails."""
    yield
    while zmtp_peer.OPEN:
        zmtp_peer.OPEN.pop().close()


@pytest.fixture
def impostor() -> Iterator[socket.socket]:
    """Listen where a worker looks for its dispatcher."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


BOXED = "frames"
"""What is sent in boxes, with keys: the path is the same for all kinds, and boxes take long."""


@pytest.mark.parametrize(
    ("door", "kind"),
    [*itertools.product(["open"], ENDLESS), ("keyed", BOXED)],
    indirect=["door"],
)
@pytest.mark.parametrize("side", ["frontend", "backend"])
def test_a_message_without_an_end_is_cut_off(
    door: Door, client: Client, kind: str, side: str
) -> None:
    pid = door.station.process.pid
    before = memory_megabytes(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is counted from here on
    stranger = ZmtpPeer.connected(getattr(door.station, side), curve=door.pair_for(side))

    sent = stranger.sends_frames_until_cut_off(*ENDLESS[kind], FAR_TOO_MUCH)

    assert sent < FAR_TOO_MUCH
    assert memory_megabytes(pid) - before < MOST_MEGABYTES
    assert is_served(client)
    until(lambda: memory_megabytes(pid, "VmRSS") - before < GIVEN_BACK_MEGABYTES)
    stranger.close()


@pytest.mark.parametrize("door", ["open"], indirect=True)
def test_many_unfinished_messages_are_bounded_together(door: Door, client: Client) -> None:
    pid = door.station.process.pid
    before = memory_megabytes(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is counted from here on
    strangers = [ZmtpPeer.connected(door.station.frontend) for _ in range(24)]

    def send(stranger: ZmtpPeer) -> int:
        return stranger.sends_frames_until_cut_off(*ENDLESS["frames"], 30 * MEGABYTE)

    with ThreadPoolExecutor(len(strangers)) as at_once:
        assert sum(at_once.map(send, strangers)) > MOST_MEGABYTES * MEGABYTE

    assert memory_megabytes(pid) - before < MOST_MEGABYTES + 100
    assert is_served(client)
    for stranger in strangers:
        stranger.close()


@pytest.mark.parametrize(
    ("first", "then"),
    [(announced(400 * MEGABYTE), bytes(MEGABYTE)), (b"", frame(bytes(MEGABYTE), MORE))],
    ids=["huge frame", "no end"],
)
def test_a_worker_takes_no_more_from_a_false_dispatcher(
    yard: Yard, impostor: socket.socket, first: bytes, then: bytes
) -> None:
    worker = yard.worker(
        Station(yard, "nowhere", {}), backends=[f"tcp://127.0.0.1:{impostor.getsockname()[1]}"]
    )
    peer = ZmtpPeer(impostor.accept()[0], b"ROUTER")
    before = memory_megabytes(worker.pid)

    peer.connection.sendall(first)
    sent = peer.sends_until_cut_off(then, FAR_TOO_MUCH)

    assert sent < FAR_TOO_MUCH
    assert memory_megabytes(worker.pid) - before < MOST_MEGABYTES
    assert worker.is_alive
    again = impostor.accept()[0]  # it tries another time, as with any dispatcher
    again.close()
    peer.close()


def test_a_client_that_asks_and_never_reads_costs_little(door: Door, client: Client) -> None:
    large = msgspec.msgpack.encode(["x" * 100_000])
    job = client.submit_raw("nobody", large)
    question = msgspec.msgpack.encode(JobsAsked(1, job_ids=(job.id,)))
    pid = door.station.process.pid
    before = memory_megabytes(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is counted from here on
    strangers = [
        ZmtpPeer.connected(door.station.frontend, b"deaf-%d" % n, door.client_pair)
        for n in range(20)
    ]

    for _ in range(20):
        for stranger in strangers:
            for _ in range(40):
                stranger.send(b"", b"LIST", question)
        assert is_served(client)
        assert client.job(job.id).id == job.id

    assert memory_megabytes(pid) - before < MOST_MEGABYTES
    for stranger in strangers:
        stranger.close()


def test_an_engine_takes_no_huge_frame_and_keeps_no_unread_answers(tmp_path: Path) -> None:
    with engines(tmp_path, 1) as (engine,):
        endpoint, pid = engine.endpoint, engine.process.pid
        before = memory_megabytes(pid)
        greedy, deaf = ZmtpPeer.connected(endpoint), ZmtpPeer.connected(endpoint)

        assert greedy.sends_until_cut_off(announced(600 * MEGABYTE), FAR_TOO_MUCH) < MEGABYTE
        asked = frame(encoded(EngineStatus(id=1, run="r" * 10_000, version=2)), LAST)
        deaf.connection.settimeout(2.0)
        deaf.sends_until_cut_off(asked, 40 * MEGABYTE)

        assert memory_megabytes(pid) - before < MOST_MEGABYTES
        assert engine.process.poll() is None
        greedy.close()
        deaf.close()
