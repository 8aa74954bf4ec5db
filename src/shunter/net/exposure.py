"""Who listens where other hosts reach it needs keys, or a word that strangers are welcome."""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address

from shunter.errors import SettingsError

_TCP = re.compile(r"tcp://\[?(?P<host>[^\]]+)\]?:(\d+|\*)\Z")


def check_exposure(
    key: str, where: str, *, is_guarded: bool, lacks: str = "no keys", remedy: str
) -> None:
    """Raise SettingsError if others reach the address of a setting, and nothing guards it.

    `where` is a host, or an endpoint of ZeroMQ's; `remedy` is what to set if it is meant so.
    """
    host = host_of(where)
    if is_guarded or host is None or not is_open_to_others(host):
        return
    raise SettingsError(
        "the settings",
        key,
        f"{where}, which other hosts reach, and {lacks}",
        f"an address of this host alone such as 127.0.0.1, {remedy}",
    )


def host_of(where: str) -> str | None:
    """Return the host of an endpoint; None if it is a file of this one."""
    if "://" not in where:
        return where
    found = _TCP.match(where)
    return None if found is None else found["host"]


def is_open_to_others(host: str) -> bool:
    """True if who listens there may be reached from other hosts.

    A host that nobody can listen on is not: whoever tries to will say so.
    """
    if host == "*":
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    except OSError:  # ZeroMQ takes names of interfaces too
        return host != "lo" and host in (name for _, name in socket.if_nameindex())
    addresses = (str(address[0]).partition("%")[0] for *_, address in found)
    return not all(ip_address(address).is_loopback for address in addresses)
