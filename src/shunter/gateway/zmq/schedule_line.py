"""Orders for schedules over ZeroMQ: put in line by peer, carried out one after the other.

What operators order is written down first. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from shunter.dispatch.schedule_book import ScheduleBook
from shunter.errors import ProtocolError
from shunter.gateway.audit_log import AuditLog
from shunter.gateway.schedule_orders import carry_out
from shunter.gateway.zmq.questions import BOUNDS, BUSY_SECONDS
from shunter.model.key import Key
from shunter.model.scope import scope_of
from shunter.wire.fair_queue import FairQueue
from shunter.wire.messages import Busy, ScheduleOrder, SchedulesListed, decode, request_of


class OrderInLine(Struct, frozen=True):
    """An order, and the key that it came with."""

    key: Key | None
    body: bytes


class ScheduleLine:
    """The orders of all clients of one dispatcher."""

    def __init__(self, book: ScheduleBook, audit: AuditLog) -> None:
        self._book, self._audit = book, audit
        self._waiting: FairQueue[OrderInLine] = FairQueue(BOUNDS)
        self._has_some = asyncio.Event()

    def put(self, peer: bytes, key: Key | None, body: bytes) -> list[tuple[bytes, Busy]]:
        """Put an order in line; return who is to come again later, and what they are told."""
        if len(body) > BOUNDS.peer_bytes:
            raise ProtocolError(
                f"SCHEDULE has {len(body):,} bytes; at most {BOUNDS.peer_bytes:,} are accepted"
            )
        displaced = self._waiting.put(peer, OrderInLine(key, body), len(body))
        self._has_some.set()
        reason = f"too many orders are waiting; send it again in {BUSY_SECONDS:g} s"
        return [
            (sender, Busy(request_of(order.body), reason, BUSY_SECONDS))
            for sender, order in displaced
        ]

    async def next(self) -> tuple[bytes, OrderInLine]:
        """Wait for an order, and return the one whose turn it is, and whose it is."""
        while (found := self._waiting.take()) is None:
            self._has_some.clear()
            await self._has_some.wait()
        return found

    async def carry_out(self, line: OrderInLine) -> SchedulesListed:
        """Do what was ordered, or raise a ProtocolError or a StoreError."""
        order = decode(line.body, ScheduleOrder)
        await self._audit.note(
            line.key, f"{order.verb} schedule", [order.name[:128]], "over ZeroMQ"
        )
        return await carry_out(self._book, scope_of(line.key), order)
