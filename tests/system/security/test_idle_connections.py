"""Connections that say nothing, or almost nothing, by the thousand: others are served all along."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from shunter.client import Client
from shunter.net.connections import HANDSHAKE_MILLISECONDS
from shunter.net.web.http_connection import HEADER_SECONDS
from system.keys import Door
from system.yard import PATIENCE, Yard, until
from system.zmtp_peer import GREETING, greeting

MANY = 1_100
HALF_A_REQUEST = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
MOST_LINES = 40


NARROW = ("prlimit", "--nofile=1024:1024")
"""No more than 1,024 files may be open, as is usual."""


@pytest.fixture(scope="module")
def door(shared_yard: Yard) -> Door:
    return Door(shared_yard, is_keyed=False, inside=NARROW)


@pytest.fixture(scope="module")
def keyed_door(shared_yard: Yard) -> Door:
    return Door(shared_yard, is_keyed=True, inside=NARROW)


@contextlib.contextmanager
def many(port: int, word: bytes) -> Iterator[list[socket.socket]]:
    """Open connections that begin to say something; some may be closed by the other side."""
    opened = []
    for _ in range(MANY):
        with contextlib.suppress(OSError):
            peer = socket.create_connection(("127.0.0.1", port), timeout=5.0)
            opened.append(peer)
            peer.sendall(word)
    try:
        yield opened
    finally:
        for peer in opened:
            peer.close()


def is_closed(peer: socket.socket) -> bool:
    """True if the other side has hung up."""
    peer.setblocking(False)
    try:
        while chunk := peer.recv(4096):
            assert chunk
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize("gateway", ["http", "frontend", "backend"])
def test_idle_connections_keep_nobody_out(door: Door, gateway: str) -> None:
    word = HALF_A_REQUEST if gateway == "http" else GREETING[:11]

    keeps_nobody_out(door, gateway, word)


def test_who_begins_to_show_a_key_and_never_does_keeps_nobody_out(keyed_door: Door) -> None:
    """The greeting is whole, and the dispatcher has answered it: next comes what takes time."""
    keeps_nobody_out(keyed_door, "frontend", greeting(b"CURVE"))


def is_served(client: Client) -> bool:
    job = client.submit("nobody")
    return client.job(job.id).id == job.id


def keeps_nobody_out(door: Door, gateway: str, word: bytes) -> None:
    station = door.station
    address = station.url if gateway == "http" else getattr(station, gateway)
    with door.client() as old:
        assert is_served(old)
        before = len(station.process.said().splitlines())

        with many(int(address.rpartition(":")[2]), word) as strangers:
            with door.client() as new:
                assert is_served(new)
            assert is_served(old)
            assert httpx.get(f"{station.url}/readyz", timeout=PATIENCE).status_code == 200
            patience = PATIENCE + max(HEADER_SECONDS, HANDSHAKE_MILLISECONDS / 1000)
            until(lambda: all(map(is_closed, strangers)), within=patience, what="deadlines")

        assert len(station.process.said().splitlines()) - before < MOST_LINES
        assert station.process.is_alive


def test_a_client_that_drips_its_headers_is_cut_off(door: Door) -> None:
    station, began = door.station, time.monotonic()
    with socket.create_connection(("127.0.0.1", station.http_port), timeout=PATIENCE) as peer:
        peer.sendall(HALF_A_REQUEST)
        while not is_closed(peer):
            assert time.monotonic() - began < HEADER_SECONDS + PATIENCE
            with contextlib.suppress(OSError):
                peer.setblocking(True)
                peer.sendall(b"x")
            time.sleep(0.25)


def test_bad_requests_by_the_hundred_are_logged_once(door: Door) -> None:
    station = door.station
    before = len(station.process.said().splitlines())

    for _ in range(300):
        with socket.create_connection(("127.0.0.1", station.http_port), timeout=PATIENCE) as peer:
            peer.sendall(b"\0\1\2 nonsense\r\n\r\n")
            assert peer.recv(64).split()[1] == b"400"

    assert len(station.process.said().splitlines()) - before < 10
