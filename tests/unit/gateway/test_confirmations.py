"""Reports are confirmed together, if nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shunter.gateway.zmq.confirmations import WAIT_SECONDS, Confirmations


class Sent:
    def __init__(self) -> None:
        self.messages: list[tuple[str, list[int]]] = []

    def __call__(self, worker_id: str, batches: Sequence[int]) -> None:
        self.messages.append((worker_id, list(batches)))


def test_those_of_one_moment_share_a_message_to_each_worker() -> None:
    async def moments(sent: Sent) -> None:
        confirmations = Confirmations(sent)
        confirmations.add("w-1", [1])
        confirmations.add("w-2", [7])
        confirmations.add("w-1", [2, 3])
        assert sent.messages == []
        await asyncio.sleep(3 * WAIT_SECONDS)
        confirmations.add("w-1", [4])
        await asyncio.sleep(3 * WAIT_SECONDS)

    asyncio.run(moments(sent := Sent()))

    assert sent.messages == [("w-1", [1, 2, 3]), ("w-2", [7]), ("w-1", [4])]


def test_what_waits_goes_with_what_can_not_wait_and_is_not_sent_again() -> None:
    async def moments(sent: Sent) -> None:
        confirmations = Confirmations(sent)
        confirmations.add("w-1", [1])
        confirmations.send_now("w-1", [2])
        confirmations.send_now("w-2", [5])
        await asyncio.sleep(3 * WAIT_SECONDS)

    asyncio.run(moments(sent := Sent()))

    assert sent.messages == [("w-1", [1, 2]), ("w-2", [5])]
