"""A UDP socket on the loop: batches, bounds, and sends that never raise."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import pytest

from shunter.net import datagrams
from shunter.net.datagrams import Batch, DatagramSocket

P = ParamSpec("P")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@in_a_loop
async def test_all_that_waits_comes_in_one_batch_in_order_with_its_sender() -> None:
    batches: list[Batch] = []
    receiver = DatagramSocket("127.0.0.1", 0, batches.append)
    sender = DatagramSocket("127.0.0.1", 0, batches.append)

    for number in range(100):
        sender.send(b"%d" % number, receiver.address)
    await until(lambda: sum(map(len, batches)) == 100)

    assert batches == [[(b"%d" % number, sender.address) for number in range(100)]]
    receiver.close()
    sender.close()


@pytest.mark.parametrize(("at_once", "sizes"), [(10, [10, 10, 5]), (1, [1] * 25)])
@in_a_loop
async def test_a_flood_is_taken_some_at_a_time(at_once: int, sizes: list[int]) -> None:
    batches: list[Batch] = []
    receiver = DatagramSocket("127.0.0.1", 0, batches.append, at_once=at_once)

    for _ in range(25):
        receiver.send(b"to myself", receiver.address)
    await until(lambda: sum(map(len, batches)) == 25)

    assert [len(batch) for batch in batches] == sizes
    receiver.close()


@in_a_loop
async def test_a_paused_socket_reads_nothing_until_it_is_resumed() -> None:
    batches: list[Batch] = []
    receiver = DatagramSocket("127.0.0.1", 0, batches.append)
    receiver.pause()
    receiver.pause()
    receiver.send(b"later", receiver.address)

    await asyncio.sleep(0.05)
    assert batches == []
    receiver.resume()
    receiver.resume()
    await until(lambda: bool(batches))

    receiver.close()


@in_a_loop
async def test_empty_and_largest_packets_pass_and_larger_ones_are_counted() -> None:
    sizes: list[int] = []
    receiver = DatagramSocket("127.0.0.1", 0, lambda b: sizes.extend(len(p) for p, _ in b))

    for size in (0, 65_507, 65_508):
        receiver.send(b"x" * size, receiver.address)
    await until(lambda: len(sizes) == 2)

    assert sizes == [0, 65_507]
    assert receiver.errors == 1
    receiver.close()


@pytest.mark.parametrize("address", [("256.1.1.1", 1), ("127.0.0.1", 0), ("127.0.0.1", 70_000)])
@in_a_loop
async def test_a_send_that_the_system_refuses_is_counted_and_not_raised(
    address: tuple[str, int],
) -> None:
    sender = DatagramSocket("127.0.0.1", 0, lambda _: None)

    sender.send(b"x", address)

    assert sender.errors == 1
    sender.close()


class Choked:
    """A socket that takes no packet until it is told to."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner, self.is_choked = inner, True

    def sendto(self, packet: bytes, address: tuple[str, int]) -> int:
        if self.is_choked:
            raise BlockingIOError
        return self._inner.sendto(packet, address)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@in_a_loop
async def test_what_the_system_can_t_take_waits_in_a_bounded_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(datagrams, "MAX_WAITING", 3)
    seen: list[bytes] = []
    receiver = DatagramSocket("127.0.0.1", 0, lambda b: seen.extend(p for p, _ in b))
    sender = DatagramSocket("127.0.0.1", 0, lambda _: None)
    choked = Choked(sender._socket)
    monkeypatch.setattr(sender, "_socket", choked)

    for number in range(5):
        sender.send(b"%d" % number, receiver.address)
    await asyncio.sleep(0.02)
    assert (sender.dropped, seen) == (2, [])
    choked.is_choked = False
    await until(lambda: len(seen) == 3)
    sender.send(b"5", receiver.address)
    await until(lambda: len(seen) == 4)

    assert seen == [b"0", b"1", b"2", b"5"]
    receiver.close()
    sender.close()


@in_a_loop
async def test_a_closed_socket_may_be_used_and_closed_again() -> None:
    closed = DatagramSocket("127.0.0.1", 0, lambda _: None)
    closed.close()

    closed.close()
    closed.send(b"x", closed.address)
    closed.pause()
    closed.resume()

    assert closed.is_closed
    assert closed.errors == 1


@in_a_loop
async def test_an_address_that_is_taken_is_an_os_error() -> None:
    first = DatagramSocket("127.0.0.1", 0, lambda _: None)

    with pytest.raises(OSError, match="in use"):
        DatagramSocket("127.0.0.1", first.address[1], lambda _: None)
    first.close()


@in_a_loop
async def test_addresses_of_ipv6_are_a_host_and_a_port_too() -> None:
    batches: list[Batch] = []
    try:
        receiver = DatagramSocket("::1", 0, batches.append)
    except OSError:
        pytest.skip("this machine has no IPv6")

    receiver.send(b"x", receiver.address)
    await until(lambda: bool(batches))

    assert batches == [[(b"x", ("::1", receiver.address[1]))]]
    receiver.close()
