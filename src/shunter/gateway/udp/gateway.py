"""One port for clients and calculators: reads packets, and gives them to whom they concern.

Packets, resends, signatures and the register of calculators are pure cores in `wire/udp`; what
becomes of jobs is the dispatcher's. A task is a job: its client's address and number are its
unique key and its `reply_to`; that its client heard of the end is its callback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from msgspec import Struct

from shunter.datagrams import Batch
from shunter.dispatch.dispatcher import Dispatcher
from shunter.environment import REAL, Environment
from shunter.gateway.complaints import Complaints
from shunter.gateway.udp.clients import UdpClients
from shunter.gateway.udp.exchange import Exchange, Signing
from shunter.gateway.udp.quota import Quota
from shunter.gateway.udp.workers import UdpWorkers
from shunter.wire.udp import naming, packets
from shunter.wire.udp.calculators import Address
from shunter.wire.udp.methods import AddTask, CompletedTask, Heartbeat, Params
from shunter.wire.udp.packets import Command, Confirmation, PacketFault, PacketReason
from shunter.wire.udp.signing import EnvelopeFault

Duty: TypeAlias = Callable[[Command, Address, int], None]
"""What is done for a command, with whence it came and how many bytes it had."""


class UdpRules(Struct, frozen=True, kw_only=True):
    """What the gateway goes by; spans in seconds."""

    confirm_timeout: float = 5.0
    heartbeat_timeout: float = 10.0
    timeout_task_placement: float = 120.0
    max_packet_bytes: int = packets.MAX_PACKET_BYTES
    max_tasks_per_client: int = 1000


class UdpGateway:
    """The dispatcher's UDP port."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        complaints: Complaints,
        rules: UdpRules,
        *,
        new_id: Callable[[], str],
        signing: Signing | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._dispatcher = dispatcher
        self._exchange = Exchange(
            complaints,
            max_packet_bytes=rules.max_packet_bytes,
            now=dispatcher.now,
            signing=signing,
            environment=environment,
        )
        self._workers = UdpWorkers(
            dispatcher,
            self._exchange,
            confirm_timeout=rules.confirm_timeout,
            heartbeat_timeout=rules.heartbeat_timeout,
        )
        self.clients = UdpClients(
            dispatcher,
            self._exchange,
            quota=Quota(rules.max_tasks_per_client, dispatcher.store),
            place_within=rules.timeout_task_placement,
            new_id=new_id,
        )
        self._duties: dict[type[Params], Duty] = {
            AddTask: self._add,
            CompletedTask: self._complete,
            Heartbeat: self._beat,
        }

    def open(self, host: str, port: int) -> None:
        """Listen, or raise an OSError."""
        self._exchange.open(host, port, self.receive)
        self._dispatcher.serve_clients(naming.GATEWAY, self.clients)

    def close(self) -> None:
        self._exchange.close()

    def tick(self) -> None:
        """Let time pass."""
        self._exchange.tick()
        self._workers.tick()
        self.clients.pass_on()

    def worker_ids(self) -> list[str]:
        """Return those of all calculators that are there."""
        return self._workers.ids()

    def receive(self, batch: Batch) -> None:
        for packet, peer in batch:
            try:
                self._take(packet, peer)
            except (EnvelopeFault, PacketFault) as fault:
                self._refuse(fault, peer, len(packet))
        self.clients.store_added()
        if self._dispatcher.has_arrivals:
            self.clients.pass_on()

    def _take(self, packet: bytes, peer: Address) -> None:
        exchange = self._exchange
        found, size, is_repeated = exchange.opened(packet)
        if isinstance(found, Confirmation):
            exchange.confirmed(found, peer)
            return
        kind = type(found.params)
        if kind is Heartbeat and not found.wants_answer:
            if not is_repeated:
                self._beat(found, peer, size)
        elif exchange.is_new(
            found, peer, is_repeated=is_repeated, is_harmless=self._is_harmless(kind)
        ):
            self._duties.get(kind, self._decline)(found, peer, size)

    def _is_harmless(self, kind: type[Params]) -> bool:
        """True if it does no harm to look at a packet again that is not answered yet.

        A task that waits for a store that fails is looked at again, to say so.
        """
        is_stuck = kind is AddTask and bool(self._dispatcher.store_health.fault())
        return kind is CompletedTask or is_stuck

    def _add(self, command: Command, peer: Address, size: int) -> None:
        self.clients.add(cast(AddTask, command.params), command, peer, size)

    def _complete(self, command: Command, peer: Address, _: int) -> None:
        self._workers.complete(cast(CompletedTask, command.params), command, peer)

    def _beat(self, command: Command, peer: Address, _: int) -> None:
        self._workers.beat(cast(Heartbeat, command.params), peer)
        if command.wants_answer:
            self._exchange.answer(command, peer)

    def _decline(self, command: Command, peer: Address, _: int) -> None:
        self._exchange.unheard(command, peer)
        message = "this is for a dispatcher to send; send add_task or completed_task"
        raise PacketFault(PacketReason.METHOD, "method", message, command.asked_as)

    def _refuse(self, fault: EnvelopeFault | PacketFault, peer: Address, size: int) -> None:
        """Note what is wrong with a packet; whoever did not sign it is never answered."""
        exchange = self._exchange
        if isinstance(fault, EnvelopeFault):
            exchange.complain(peer, fault.reason, fault.message)
            return
        exchange.complain(peer, fault.reason, str(fault))
        exchange.refuse(
            fault.transmission_id,
            peer,
            size,
            code=fault.reason,
            message=fault.message,
            field=fault.field,
        )
