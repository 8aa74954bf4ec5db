"""Where a client may look for dispatchers: what it was given, as ZeroMQ wants it."""

from __future__ import annotations

import re

from shunter.errors import SettingsError

DEFAULT_ADDRESS = "tcp://127.0.0.1:5560"
ALLOWED = "tcp://HOST:PORT, HOST:PORT, or ipc://PATH"

_TCP = re.compile(r"(?:tcp://)?(?P<where>(?:\[[^\]/]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5}))\Z")
_LOCAL = re.compile(r"(?:ipc|inproc)://.+\Z")


def checked_addresses(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses to connect to; raise a SettingsError if one can't be any."""
    return tuple(map(_checked, addresses)) or (DEFAULT_ADDRESS,)


def _checked(address: str) -> str:
    if not isinstance(address, str):
        raise SettingsError("the client", "address", repr(address), ALLOWED)
    tcp = _TCP.match(address)
    if tcp is not None and 0 < int(tcp["port"]) < 65536:
        return f"tcp://{tcp['where']}"
    if _LOCAL.match(address):
        return address
    raise SettingsError("the client", "address", repr(address), ALLOWED)
