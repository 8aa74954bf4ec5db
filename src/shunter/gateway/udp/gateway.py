"""One port for clients and calculators: reads packets, and gives them to whom they concern.

Packets, resends, signatures and the register of calculators are pure cores in `wire/udp`; what
becomes of jobs is the dispatcher's. A task is a job: its client's address and number are its
unique key and its `reply_to`; that its client heard of the end is its callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias, cast

from msgspec import Struct

from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.udp.clients import UdpClients
from shunter.gateway.udp.exchange import Exchange, PendingRequest
from shunter.gateway.udp.quota import Quota
from shunter.gateway.udp.workers import UdpWorkers
from shunter.model.job import DEFAULT_TYPE
from shunter.net.environment import REAL, Environment
from shunter.net.udp_endpoint import Seal, UdpEndpoint
from shunter.refusal_log import RefusalLog
from shunter.wire.udp import job_names, packets
from shunter.wire.udp.address_validation import AddressValidation
from shunter.wire.udp.keys import Secret, UdpKeys
from shunter.wire.udp.methods import (
    AddTask,
    CompletedTask,
    Heartbeat,
    Params,
    Ping,
    TaskLog,
)
from shunter.wire.udp.packets import Command, Confirmation, PacketFault, PacketReason
from shunter.wire.udp.peers import KeyedPeer, Peer, UdpAddress
from shunter.wire.udp.seals import DispatcherSealer

Duty: TypeAlias = Callable[[Command, Peer, int], None]
"""What is done for a command, with whence it came and how many bytes it had."""


class UdpRules(Struct, frozen=True, kw_only=True):
    """What the gateway goes by; spans in seconds."""

    confirm_timeout: float = 5.0
    heartbeat_timeout: float = 10.0
    timeout_task_placement: float = 120.0
    max_packet_bytes: int = packets.MAX_PACKET_BYTES
    max_tasks_per_client: int = 1000


class UdpGateway:
    """The dispatcher's UDP port. An EndpointOwner."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        refusals: RefusalLog,
        rules: UdpRules,
        *,
        new_id: Callable[[], str],
        keys: UdpKeys | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._dispatcher = dispatcher
        self._exchange = Exchange(
            refusals,
            max_packet_bytes=rules.max_packet_bytes,
            now=dispatcher.now,
            token_bytes=environment.token_bytes,
        )
        self._keys = keys
        self._environment = environment
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
            TaskLog: self._log,
            Heartbeat: self._beat,
            Ping: self._pong,
        }

    def open(self, host: str, port: int) -> None:
        """Listen, or raise an OSError."""
        self._exchange.endpoint = UdpEndpoint(
            self,
            lambda receive: self._environment.datagram_socket(host, port, receive),
            clock=asyncio.get_running_loop(),
            jitter=self._environment.random,
            seal=None if self._keys is None else self._seal(self._keys),
            validation=AddressValidation(),
            max_packet_bytes=self._exchange.max_packet_bytes,
        )
        self._dispatcher.serve_clients(job_names.GATEWAY, self.clients)

    def close(self) -> None:
        self._exchange.close()

    def tick(self) -> None:
        """Let time pass."""
        self._exchange.endpoint.forget_old()
        self._workers.tick()
        self.clients.pass_on()

    def worker_ids(self) -> list[str]:
        """Return those of all calculators that are there."""
        return self._workers.ids()

    # ---- EndpointOwner

    def is_welcome(self, address: UdpAddress) -> bool:
        return True

    def is_remembered(self, command: Command) -> bool:
        """Each heartbeat counts, of logs the newest, and a ping changes nothing."""
        kind = type(command.params)
        return kind is not Ping and (command.wants_answer or kind not in (Heartbeat, TaskLog))

    def may_repeat(self, command: Command) -> bool:
        """Do so with completions, and with a task that waits for a store that fails, to say so."""
        kind = type(command.params)
        is_stuck = kind is AddTask and bool(self._dispatcher.store_health.fault())
        return kind is CompletedTask or is_stuck

    def take_command(self, command: Command, peer: Peer, size: int) -> None:
        if self._keys is not None and (message := self._forbidden(command.params, peer)):
            self._exchange.endpoint.unheard(command, peer)
            raise PacketFault(PacketReason.FORBIDDEN, "key", message, command.asked_as)
        self._duties.get(type(command.params), self._decline)(command, peer, size)

    def take_answer(self, about: PendingRequest, confirmation: Confirmation | None) -> None:
        about.answered(confirmation)

    def take_fault(self, peer: Peer, reason: str, detail: str) -> None:
        self._exchange.complain(peer, reason, detail)

    def batch_taken(self) -> None:
        self.clients.store_added()
        if self._dispatcher.has_arrivals:
            self.clients.pass_on()

    # ---- what is done for a command

    def _add(self, command: Command, peer: Peer, size: int) -> None:
        key = self._keys(peer.key) if self._keys and isinstance(peer, KeyedPeer) else None
        namespace = "" if key is None else key.namespace
        self.clients.add(cast(AddTask, command.params), command, peer, size, namespace)

    def _complete(self, command: Command, peer: Peer, _: int) -> None:
        self._workers.complete(cast(CompletedTask, command.params), command, peer)

    def _log(self, command: Command, peer: Peer, _: int) -> None:
        self._workers.tell_log(cast(TaskLog, command.params), peer)
        if command.wants_answer:
            self._exchange.endpoint.confirm(command, peer)

    def _beat(self, command: Command, peer: Peer, _: int) -> None:
        is_request = command.wants_answer
        self._workers.beat(cast(Heartbeat, command.params), peer, is_request=is_request)
        if is_request:
            self._exchange.endpoint.confirm(command, peer)

    def _pong(self, command: Command, peer: Peer, _: int) -> None:
        if command.asked_as is not None:
            self._exchange.endpoint.send(packets.answer(command.asked_as), peer)

    def _forbidden(self, params: Params, peer: Peer) -> str:
        """Say why a key may not do this; nothing if it may."""
        assert self._keys is not None
        assert isinstance(peer, KeyedPeer)
        key = self._keys(peer.key)
        if key is None:
            return f"key {peer.key!r} is not known any more"
        if isinstance(params, AddTask) and not key.may_add:
            return f"key {key.name!r} may not add tasks; use one of a client"
        if isinstance(params, CompletedTask | TaskLog | Heartbeat) and not key.may_perform:
            return f"key {key.name!r} may not perform tasks; use one of a worker"
        if isinstance(params, Heartbeat):
            types = params.handlers or (DEFAULT_TYPE,)
            if not key.may_perform_all(types):
                return f"key {key.name!r} is not for all of the types {', '.join(types)}"
        return ""

    def _seal(self, keys: UdpKeys) -> Seal:
        """Take a name that no dispatcher had before, and be the only one to make tokens for it."""
        random = self._environment.token_bytes
        sealer = DispatcherSealer(keys, random(8).hex(), Secret(random(32)))
        return Seal(sealer, self._environment.wall)

    def _decline(self, command: Command, peer: Peer, _: int) -> None:
        self._exchange.endpoint.unheard(command, peer)
        message = "this is for a dispatcher to send; send add_task or completed_task"
        raise PacketFault(PacketReason.METHOD, "method", message, command.asked_as)
