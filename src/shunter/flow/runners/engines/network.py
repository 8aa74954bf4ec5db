"""Addresses: which of this host's a worker listens on, and the way from one worker to another."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

import msgspec
import psutil

from shunter.errors import FlowError
from shunter.private_folder import private_folder


class InboxAddress(msgspec.Struct, frozen=True, array_like=True):
    """Where an inbox is: what its TCP listener is bound to, its port, and its engine's node."""

    host: str
    port: int
    node: int

    @property
    def tcp(self) -> str:
        return f"tcp://{self.host}:{self.port}"


class Way(StrEnum):
    """How events get from one worker to another."""

    QUEUE = "queue"
    IPC = "ipc"
    TCP = "tcp"


def way_to(inbox: InboxAddress, *, here: Collection[int], hosts: Collection[str]) -> Way:
    """Choose the way to an inbox.

    `here` are the ports of the inboxes in this process, and `hosts` the addresses of this host.
    """
    if inbox.host not in hosts:
        return Way.TCP
    return Way.QUEUE if inbox.port in here else Way.IPC


def own_addresses() -> list[str]:
    """All IPv4 addresses of this host's interfaces, loopback included."""
    interfaces = psutil.net_if_addrs().values()
    return [
        address.address
        for addresses in interfaces
        for address in addresses
        if address.family is socket.AF_INET
    ]


def preferred_address(network: str, addresses: Collection[str]) -> str:
    """Return the address that lies in the preferred network: a CIDR, or how addresses begin."""
    matching = [address for address in addresses if _is_in(address, network)]
    if not matching:
        raise FlowError(
            f"no interface of this host is in the network {network!r}; it has "
            f"{', '.join(addresses) or 'no addresses'}: name a network of one of these, as "
            "10.1.0.0/16 or 10.1."
        )
    return matching[0]


def _is_in(address: str, network: str) -> bool:
    if "/" not in network:
        return address == network or address.startswith(f"{network.rstrip('.')}.")
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError as error:
        raise FlowError(f"{network!r} is no network: {error}; write it as 10.1.0.0/16") from error


def ipc_endpoint(host: str, port: int) -> str:
    """Where the inbox of a port listens for processes on the same host."""
    return f"ipc://{_ipc_folder(host)}/inbox_{port}"


def sweep_inboxes(host: str) -> int:
    """Remove what engines that were killed have left; return how many files that was."""
    stale = [path for path in _ipc_folder(host).glob("inbox_*") if not _is_listening(path)]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def engine_endpoint(name: str) -> str:
    """Where an engine listens for deployers of the same user, and nobody else."""
    return f"ipc://{private_folder()}/engine_{name}"


def is_loopback(endpoint: str) -> bool:
    """True if an endpoint of ZeroMQ is reached from this host alone."""
    scheme, _, rest = endpoint.partition("://")
    host = rest.rpartition(":")[0]
    return scheme == "ipc" or host == "localhost" or host.startswith("127.")


def is_private(endpoint: str) -> bool:
    """True if only this user can reach an endpoint of ZeroMQ: any user reaches loopback."""
    path = endpoint.removeprefix("ipc://")
    return path != endpoint and not path.startswith("@")


def is_taken(endpoint: str) -> bool:
    """True if somebody listens at an endpoint that is a file: ZeroMQ would put its own there."""
    path = Path(endpoint.removeprefix("ipc://"))
    return endpoint.startswith("ipc://") and path.exists() and _is_listening(path)


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True


def _ipc_folder(host: str) -> Path:
    return private_folder(host)
