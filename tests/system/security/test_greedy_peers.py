"""Peers that fill the memory of others: messages without an end, huge frames, answers unread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shunter.client import Client
from shunter.flow.runners.engines.messages import EngineStatus, encoded
from shunter.wire.messages import JobsAsked
from system import zmtp_peer
from system.flow.engines import engines
from system.yard import PATIENCE, Station, Yard, until
from system.zmtp_peer import LAST, MORE, ZmtpPeer, announced, frame, memory_megabytes

MEGABYTE = 1024 * 1024
FAR_TOO_MUCH = 600 * MEGABYTE
MOST_MEGABYTES = 350
"""By how much a process may grow, whatever peers do; it was by 800 to 1,500."""

GIVEN_BACK_MEGABYTES = 64
"""What may be left of that when they were cut off."""

ENDLESS = {
    "large frames": frame(bytes(MEGABYTE), MORE),
    "frames": frame(bytes(64 * 1024), MORE),
    "empty frames": 20_000 * frame(b"", MORE),
}


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    station = shared_yard.dispatcher()
    shared_yard.worker(station)
    return station


@pytest.fixture(scope="module")
def client(shared_yard: Yard, station: Station) -> Client:
    client = shared_yard.client(station)
    assert client.submit("add", 1, 2).result(PATIENCE) == 3
    return client


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


@pytest.mark.parametrize("side", ["frontend", "backend"])
@pytest.mark.parametrize("kind", list(ENDLESS))
def test_a_message_without_an_end_is_cut_off(
    station: Station, client: Client, kind: str, side: str
) -> None:
    pid = station.process.pid
    before = memory_megabytes(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is counted from here on
    stranger = ZmtpPeer.connected(getattr(station, side))

    sent = stranger.sends_until_cut_off(ENDLESS[kind], FAR_TOO_MUCH)

    assert sent < FAR_TOO_MUCH
    assert memory_megabytes(pid) - before < MOST_MEGABYTES
    assert client.submit("add", 1, 2).result(PATIENCE) == 3
    until(lambda: memory_megabytes(pid, "VmRSS") - before < GIVEN_BACK_MEGABYTES)
    stranger.close()


def test_many_unfinished_messages_are_bounded_together(station: Station, client: Client) -> None:
    pid = station.process.pid
    before = memory_megabytes(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is counted from here on
    strangers = [ZmtpPeer.connected(station.frontend) for _ in range(24)]
    each = 30 * MEGABYTE
    sent: list[int] = []
    threads = [
        threading.Thread(
            target=lambda it=it: sent.append(it.sends_until_cut_off(ENDLESS["frames"], each))
        )
        for it in strangers
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert memory_megabytes(pid) - before < MOST_MEGABYTES + 100
    assert client.submit("add", 1, 2).result(PATIENCE) == 3
    for stranger in strangers:
        stranger.close()


@pytest.mark.parametrize(
    ("first", "then"),
    [(announced(400 * MEGABYTE), bytes(MEGABYTE)), (b"", ENDLESS["large frames"])],
    ids=["huge frame", "no end"],
)
def test_a_worker_takes_no_more_from_a_false_dispatcher(
    yard: Yard, station: Station, impostor: socket.socket, first: bytes, then: bytes
) -> None:
    worker = yard.worker(station, backends=[f"tcp://127.0.0.1:{impostor.getsockname()[1]}"])
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


def test_a_client_that_asks_and_never_reads_costs_little(station: Station, client: Client) -> None:
    large = msgspec.msgpack.encode(["x" * 100_000])
    job = client.submit_raw("nobody", large)
    question = msgspec.msgpack.encode(JobsAsked(1, job_ids=(job.id,)))
    message = frame(b"", MORE) + frame(b"LIST", MORE) + frame(question, LAST)
    pid = station.process.pid
    before = memory_megabytes(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is counted from here on
    strangers = [ZmtpPeer.connected(station.frontend, b"deaf-%d" % n) for n in range(20)]

    for _ in range(20):
        for stranger in strangers:
            stranger.connection.sendall(40 * message)
        assert client.submit("add", 1, 2).result(PATIENCE) == 3
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
