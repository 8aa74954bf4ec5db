"""Which addresses may be called, or called by: a list of names, addresses and networks.

A dispatcher stands inside a network, and who submits a job perhaps does not: without a list, a
callback, or a worker that is said to be there, would be a way to reach what is inside. So the host
must be listed, and what a listed *name* leads to must be public or be listed itself: whoever
controls a name must not be able to point it inwards. Link-local addresses (where clouds keep their
secrets), multicast and "unspecified" ones count as listed only where an entry names just them, not
as part of a larger network.
URLs are read by a narrow rule that leaves two readers nothing to disagree about.
Pure: names are resolved elsewhere, and asked about here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from msgspec import Struct

from shunter.model.redaction import redacted_callback

LOOPBACK = ("localhost", "127.0.0.0/8", "::1")
"""What is allowed unless the settings say otherwise: this machine."""

SETTING = "callbacks.allowed_hosts"

MAX_URL_LENGTH = 2048

ENTRY_RULE = (
    "host names (hooks.example.com, *.example.com), IP addresses and networks (10.1.0.0/16)"
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\Z")
_NUMBER = re.compile(r"(\d+|0[xX][0-9A-Fa-f]*)\Z")
_URL = re.compile(
    r"(?P<scheme>https?)://(\[(?P<six>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))"
    r"(:(?P<port>\d{1,5}))?([/?#][!-~]*)?\Z",
    re.IGNORECASE,
)
_NAT64 = ip_network("64:ff9b::/96")
_SPECIAL: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8")
)
"""Link-local, unspecified, multicast."""


class AllowedHosts(Struct, frozen=True):
    """The list, read. `entries` is how it was written, for messages."""

    entries: tuple[str, ...]
    names: frozenset[str]
    domains: tuple[str, ...]
    networks: tuple[Network, ...]
    setting: str = SETTING

    def fault(self, url: str) -> str | None:
        """Say why a URL may not be called back, and what to do about it; None if it may be."""
        shown = repr(redacted_callback(url)[:128])
        host, fault = _host(url)
        if host is None:
            return f"found {shown}: {fault}"
        if self.has(host):
            return None
        return f"found {shown}: {self.unlisted(host)}"

    def has(self, host: str) -> bool:
        """True if a host is listed, by its name or its address."""
        host = host.lower().rstrip(".")
        address = _address(host)
        return self._has_name(host) if address is None else self._has_address(address)

    def unlisted(self, host: str) -> str:
        """Say that a host is not listed, and what to do about it."""
        listed = ", ".join(self.entries) or "none"
        return (
            f"calls to {host} are not allowed; allowed are {listed}; "
            f"add it to {self.setting} of the dispatchers"
        )

    def may_call(self, host: str, address: str) -> bool:
        """True if a call to this host may go to this address, its own or the one it has."""
        host = host.strip("[]").lower()
        found = _address(address)
        if found is None:
            return False
        if _address(host) is not None:
            return _address(host) == found and self._has_address(found)
        if not self._has_name(host):
            return False
        if host == "localhost" and found.is_loopback:
            return True
        return self._has_address(found) or _is_public(found)

    def _has_name(self, host: str) -> bool:
        return host in self.names or any(host.endswith(domain) for domain in self.domains)

    def _has_address(self, address: Address) -> bool:
        special = [network for network in _SPECIAL if _holds(network, address)]
        return any(
            _holds(network, address) and all(_lies_in(network, wide) for wide in special)
            for network in self.networks
        )


def allowed_hosts(entries: Iterable[str] = LOOPBACK, setting: str = SETTING) -> AllowedHosts:
    """Read a list, or raise ValueError that names the entry which is wrong."""
    written = tuple(entries)
    names, domains, networks = set(), [], []
    for entry in written:
        host = entry.strip("[]")
        if "/" in host or ":" in host or _is_numeric(host):
            try:
                networks.append(ip_network(host))
            except ValueError as error:
                raise ValueError(f"{ENTRY_RULE}; {entry!r} is none: {error}") from None
        elif _NAME.match(host.removeprefix("*.")):
            if host.startswith("*."):
                domains.append(host[1:].lower())
            else:
                names.add(host.lower())
        else:
            raise ValueError(f"{ENTRY_RULE}; {entry!r} is none")
    return AllowedHosts(written, frozenset(names), tuple(domains), tuple(networks), setting)


def is_same_address(one: str, other: str) -> bool:
    """True if these are one address, however it is written or wrapped."""
    address = _address(one)
    return address is not None and address == _address(other)


def _host(url: str) -> tuple[str | None, str]:
    """Return the host that a URL names, in small letters; or None, and what is wrong."""
    found = _URL.match(url)
    if found is None or len(url) > MAX_URL_LENGTH:
        return None, (
            f"send http://host:port/path or https://…, at most {MAX_URL_LENGTH} characters of "
            "plain ASCII, without user and password"
        )
    if found["port"] is not None and not 1 <= int(found["port"]) <= 65535:
        return None, f"port {found['port']} does not exist; send 1 to 65535, or none"
    host = (found["six"] or found["host"]).lower()
    if _address(host) is not None:
        return host, ""
    if found["six"] is not None or _is_numeric(host):
        return None, f"{host} is not an IP address; write it in full, such as 127.0.0.1 or [::1]"
    if not _NAME.match(host):
        return None, f"{host} is not a host name; send one such as hooks.example.com"
    return host, ""


def _is_numeric(host: str) -> bool:
    """True if some resolver may take this for an IPv4 address, in whatever spelling."""
    return _NUMBER.match(host.rstrip(".").rpartition(".")[2]) is not None


def _address(text: str) -> Address | None:
    """Read an address; one of IPv4 that is wrapped in IPv6, in any way, is unwrapped."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _holds(network: Network, address: Address) -> bool:
    return network.version == address.version and address in network


def _lies_in(network: Network, wide: Network) -> bool:
    return network.prefixlen >= wide.prefixlen and _holds(wide, network.network_address)


def _is_public(address: Address) -> bool:
    """True if an address is one of the internet at large."""
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved
