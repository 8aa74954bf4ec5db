"""A peer's end of the UDP dialogue: what it sends before it has confirmed anything is padded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from shunter.net.dialogue import Dialogue, seal_of
from shunter.net.environment import Environment
from shunter.wire.udp.address_validation import FACTOR
from shunter.wire.udp.keys import Secret, UdpKey
from shunter.wire.udp.methods import AddTask, Heartbeat, PerformTask
from shunter.wire.udp.packets import MAX_PACKET_BYTES, Command, request

FAR, NEAR = ("203.0.113.7", 5555), ("127.0.0.1", 5555)
BEAT = Heartbeat(status="ready")


class Wire:
    """A socket that keeps what is sent."""

    is_closed, address = False, ("10.0.0.1", 9)

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, packet: bytes, address: Any) -> None:
        self.sent.append(packet)

    def close(self) -> None:
        self.is_closed = True


class WiredEnvironment(Environment):
    def __init__(self) -> None:
        self.wire = Wire()

    def datagram_socket(self, *_: Any, **__: Any) -> Any:
        return self.wire


async def sizes(dispatcher: tuple[str, int], key: UdpKey | None = None) -> list[int]:
    """Send a heartbeat and a request, confirm a task, and send both again; return the lengths."""
    environment = WiredEnvironment()
    commands: list[Command] = []
    dialogue: Dialogue[None] = Dialogue(
        dispatcher,
        ("10.0.0.1", 9),
        on_command=commands.append,
        on_answer=lambda about, answer: None,
        seal=seal_of(key, "c-1", environment),
        environment=environment,
    )
    sent = environment.wire.sent
    dialogue.tell(BEAT)
    dialogue.ask(AddTask(task_id=1), None)
    before = [len(packet) for packet in sent]
    if key is None:
        dialogue._endpoint.receive([(request(PerformTask(task_id=5), 77), dispatcher)])
        dialogue.confirm(commands[0])
        assert json.loads(sent[-1]) == {"packet_type": 2, "transmission_id": 77}
        sent.clear()
        dialogue.tell(BEAT)
        dialogue.ask(AddTask(task_id=2), None)
        assert all(len(packet) < 130 for packet in sent)
    dialogue.close()
    return before


def test_to_another_host_whatever_is_sent_first_is_a_third_of_a_packet() -> None:
    assert asyncio.run(sizes(FAR)) == [MAX_PACKET_BYTES / FACTOR] * 2


@pytest.mark.parametrize(
    ("dispatcher", "key"), [(NEAR, None), (FAR, UdpKey("k", Secret(b"k" * 32)))]
)
def test_on_this_host_and_with_a_key_nothing_is_padded(
    dispatcher: tuple[str, int], key: UdpKey | None
) -> None:
    assert all(size < 380 for size in asyncio.run(sizes(dispatcher, key)))
