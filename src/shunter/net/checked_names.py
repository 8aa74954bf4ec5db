"""Names of hosts, resolved only to addresses that may be called; for `http_calls.py`."""

from __future__ import annotations

import socket
from collections.abc import Callable

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver


class AddressForbidden(OSError):
    """A name leads only to addresses that may not be called."""


class CheckedNames(AbstractResolver):
    """Resolves names, and lets through only addresses that may be called."""

    def __init__(self, may_call: Callable[[str, str], bool]) -> None:
        self._may_call = may_call
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        allowed = [result for result in found if self._may_call(host, result["host"])]
        if not allowed:
            addresses = ", ".join(result["host"] for result in found)
            raise AddressForbidden(None, f"{host} is at {addresses}, which may not be called")
        return allowed

    async def close(self) -> None:
        await self._resolver.close()
