"""What systemd hears of a dispatcher, over the socket that it names."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.cli.service_manager import keep_informed, watchdog_seconds


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


async def heard(manager: socket.socket) -> bytes:
    async with asyncio.timeout(30):
        return await asyncio.get_running_loop().sock_recv(manager, 100)


def test_ready_is_said_when_it_is_so_and_then_that_the_loop_turns(manager: socket.socket) -> None:
    async def serving() -> list[bytes]:
        ready = asyncio.Event()
        environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "20000"}
        informing = asyncio.create_task(keep_informed(ready, environ))
        await asyncio.sleep(0)
        with pytest.raises(BlockingIOError):
            manager.recv(100)  # connected by now, and silent
        ready.set()
        said = [await heard(manager) for _ in range(3)]
        informing.cancel()
        return said

    assert asyncio.run(serving()) == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]


def test_without_a_watchdog_ready_is_the_last_word(manager: socket.socket) -> None:
    ready = asyncio.Event()
    ready.set()

    asyncio.run(keep_informed(ready, {"NOTIFY_SOCKET": manager.getsockname()}))

    assert manager.recv(100) == b"READY=1"
    with pytest.raises(BlockingIOError):
        manager.recv(100)


def test_an_abstract_socket_is_found() -> None:
    ready = asyncio.Event()
    ready.set()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("")  # the kernel picks an abstract name
        name = listener.getsockname().decode().replace("\0", "@", 1)
        asyncio.run(keep_informed(ready, {"NOTIFY_SOCKET": name}))

        assert listener.recv(100) == b"READY=1"


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/at/all"}]
)
def test_who_is_not_asked_or_not_heard_goes_on(environ: dict[str, str]) -> None:
    ready = asyncio.Event()
    ready.set()

    asyncio.run(keep_informed(ready, environ))


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "30000000"}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_watchdog_is_for_the_process_that_it_names(
    environ: dict[str, str], seconds: float
) -> None:
    assert watchdog_seconds(environ, 7) == seconds
