"""What the registry asks about stores in memory: there is never one but one's own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

from shunter.errors import StoreError
from shunter.store.finding import Finding, State
from shunter.store.memory import MemoryStore


def made(url: str) -> MemoryStore:
    if not url.endswith("://"):
        raise ValueError("nothing follows the slashes")
    return MemoryStore()


async def check_exists(url: str) -> None:
    raise StoreError(
        "store memory://: it is in another process's memory; name one in SQLite or MongoDB"
    )


def mark_of(url: str) -> str:
    return f"memory:{socket.gethostname()}:{os.getpid()}"


def absolute(url: str) -> str:
    return url


def glance(url: str) -> Finding:
    return Finding("store", State.WARN, f"{url}: jobs end with the process", "set store.url")


def examine(url: str) -> Iterator[Finding]:
    yield glance(url)


def repair(url: str) -> Iterator[Finding]:
    yield glance(url)
