"""One port for clients and calculators: reads packets, and gives them to whom they concern.

Packets, resends, signatures and the register of calculators are pure cores in `wire/udp`; what
becomes of jobs is the dispatcher's. A task is a job: its client's address and number are its
unique key and its `reply_to`; that its client heard of the end is its callback.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from shunter.datagrams import Batch
from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.complaints import Complaints
from shunter.gateway.udp.clients import UdpClients
from shunter.gateway.udp.exchange import Exchange, Signing
from shunter.gateway.udp.quota import Quota
from shunter.gateway.udp.workers import UdpWorkers
from shunter.wire.udp import naming, packets
from shunter.wire.udp.calculators import Address
from shunter.wire.udp.methods import AddTask, CompletedTask, Heartbeat
from shunter.wire.udp.packets import Command, Confirmation, PacketFault, PacketReason
from shunter.wire.udp.signing import EnvelopeFault


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
    ) -> None:
        self._dispatcher = dispatcher
        self._exchange = Exchange(
            complaints,
            max_packet_bytes=rules.max_packet_bytes,
            now=dispatcher.now,
            signing=signing,
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
        exchange = self._exchange
        for packet, peer in batch:
            try:
                self._take(packet, peer)
            except EnvelopeFault as fault:  # which is never answered
                exchange.complain(peer, fault.reason, fault.message)
            except PacketFault as fault:
                exchange.complain(peer, fault.reason, str(fault))
                exchange.refuse(
                    fault.transmission_id,
                    peer,
                    len(packet),
                    code=fault.reason,
                    message=fault.message,
                    field=fault.field,
                )

    def _take(self, packet: bytes, peer: Address) -> None:
        found, size, is_repeated = self._exchange.opened(packet)
        match found:
            case Confirmation():
                self._exchange.confirmed(found, peer)
            case Command(params=Heartbeat() as params, wants_answer=False):
                if not is_repeated:
                    self._workers.beat(params, peer)
            case Command() if self._exchange.is_new(
                found,
                peer,
                is_repeated=is_repeated,
                is_harmless=isinstance(found.params, CompletedTask),
            ):
                self._carry_out(found, peer, size)

    def _carry_out(self, command: Command, peer: Address, size: int) -> None:
        match command.params:
            case AddTask() as params:
                self.clients.pass_on()
                self.clients.add(params, command, peer, size)
            case CompletedTask() as params:
                self.clients.pass_on()
                self._workers.complete(params, command, peer)
            case Heartbeat() as params:
                self._workers.beat(params, peer)
                self._exchange.answer(command, peer)
            case _:
                self._exchange.unheard(command, peer)
                message = "this is for a dispatcher to send; send add_task or completed_task"
                asked = command.transmission_id if command.wants_answer else None
                raise PacketFault(PacketReason.METHOD, "method", message, asked)
