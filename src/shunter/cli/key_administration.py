"""What `shunter key` does: keys are made and revoked in the store, and a log says who did it.

Whoever may write to the store is the system's administrator, and needs no key to make keys.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import zmq
from rich import box
from rich.table import Table

from shunter.cli.terminal import Terminal, json_line
from shunter.errors import KeyRefused, SettingsError
from shunter.gateway.ids import Ids
from shunter.key_file import KeyFile, write_key_file
from shunter.model.identity import NAME_RULE as TYPE_RULE
from shunter.model.identity import is_name
from shunter.model.key import (
    NAME_PATTERN,
    NAME_RULE,
    TOKEN_BYTES,
    Key,
    Role,
    token_hash,
    udp_key,
)
from shunter.net.environment import REAL, Environment
from shunter.settings_sources import load_settings
from shunter.store import key_records
from shunter.store.key_records import AuditEntry
from shunter.store.port import Store
from shunter.store.registry import store_for

T = TypeVar("T")
OnStore = Callable[[Callable[[Store], Awaitable[T]]], T]

SHOWN = ("name", "role", "types", "namespace", "public", "created", "revoked")


class KeyAdministration:
    """The keys in one store."""

    def __init__(self, store: str | None, config: Path | None) -> None:
        self._url = load_settings(config, os.environ, {"store.url": store}).settings.store.url

    def make(
        self, name: str, role: Role, *, types: tuple[str, ...], namespace: str, path: Path
    ) -> None:
        """Make a key, and write its file."""
        check(name, role, types, namespace)
        if path.exists():
            raise SettingsError(
                "the command line", "--out", f"{path}, which is there", "a new file"
            )
        file, key = made(name, role, types=types, namespace=namespace, now=time.time())

        async def add(store: Store) -> str:
            server = key.public if role is Role.DISPATCHER else await _server(store, name)
            await key_records.add_key(store, key)
            await key_records.note(store, [_entry("make key", name, role)])
            return server

        write_key_file(path, msgspec.structs.replace(file, server=self._do(add)))

    def revoke(self, name: str) -> None:
        """Revoke a key."""

        async def act(store: Store) -> None:
            await key_records.revoke_key(store, name, now=time.time())
            await key_records.note(store, [_entry("revoke key", name)])

        self._do(act)

    def listed(self) -> list[Key]:
        """Return all keys."""
        return self._do(key_records.keys)

    def audited(self, *, before: str | None, limit: int) -> list[AuditEntry]:
        """Return a page of the audit log, the newest first."""
        return self._do(lambda store: key_records.audited(store, before=before, limit=limit))

    def _do(self, act: Callable[[Store], Awaitable[T]]) -> T:
        async def run() -> T:
            store = store_for(self._url)
            await store.open()
            try:
                return await act(store)
            finally:
                await store.close()

        return asyncio.run(run())


def print_keys(found: list[Key], *, as_json: bool) -> None:
    console = Terminal()
    if as_json:
        shown = [{field: getattr(key, field) for field in SHOWN} for key in found]
        console.print_json(json_line(shown))
        return
    table = Table("name", "role", "types", "namespace", "made", "revoked", box=box.SIMPLE_HEAD)
    for key in found:
        types = ", ".join(key.types) or ("any" if key.role is Role.WORKER else "")
        revoked = "" if key.revoked is None else _minute(key.revoked)
        table.add_row(key.name, key.role, types, key.namespace, _minute(key.created), revoked)
    console.print(table if found else "no keys yet; `shunter key new` makes one")


def print_audit(found: list[AuditEntry], *, as_json: bool) -> None:
    console = Terminal()
    if as_json:
        console.print_json(json_line([msgspec.to_builtins(entry) for entry in found]))
        return
    table = Table("when", "who", "did", "to", "", box=box.SIMPLE_HEAD)
    for it in found:
        table.add_row(_minute(it.at), it.actor, it.action, it.target, it.detail)
    console.print(table if found else "nothing has been done yet")


async def _server(store: Store, name: str) -> str:
    """Return the public key by which dispatchers are known: the newest that counts."""
    found = await key_records.keys(store)
    servers = [it for it in found if it.role is Role.DISPATCHER and it.revoked is None]
    if not servers:
        raise KeyRefused(
            name,
            "there is no key yet by which dispatchers are known",
            "make that first: shunter key new dispatchers --role dispatcher",
        )
    return max(servers, key=lambda it: it.created).public


def check(name: str, role: Role, types: tuple[str, ...], namespace: str) -> None:
    """Raise a KeyRefused if no key can be made like that."""
    if not NAME_PATTERN.match(name):
        raise KeyRefused(name, "that is no name for a key", f"take {NAME_RULE}")
    if types and role is not Role.WORKER:
        raise KeyRefused(name, f"a {role} serves no types", "leave out --types")
    for job_type in types:
        if not is_name(job_type):
            raise KeyRefused(name, f"{job_type!r} is no type of job", f"write {TYPE_RULE}")
    if namespace and role in (Role.WORKER, Role.DISPATCHER):
        raise KeyRefused(name, f"a {role} has no namespace", "leave out --namespace")
    if namespace and not NAME_PATTERN.match(namespace):
        raise KeyRefused(name, f"{namespace!r} is no namespace", f"write {NAME_RULE}")


def made(
    name: str,
    role: Role,
    *,
    types: tuple[str, ...] = (),
    namespace: str = "",
    now: float,
    environment: Environment = REAL,
) -> tuple[KeyFile, Key]:
    """Make a key: what its holder has, and what dispatchers know of it."""
    public, secret = (text.decode() for text in zmq.curve_keypair())
    token = environment.token_bytes(TOKEN_BYTES).hex()
    file = KeyFile(name=name, role=role, public=public, secret=secret, token=token)
    key = Key(
        name=name,
        role=role,
        public=public,
        token_hash=token_hash(token),
        udp_key=udp_key(token).hex(),
        types=types,
        namespace=namespace,
        created=now,
    )
    return file, key


def _entry(action: str, target: str, detail: str = "") -> AuditEntry:
    actor = f"{getpass.getuser()}@{REAL.hostname()}"
    return AuditEntry(
        id=Ids().new(), at=time.time(), actor=actor, action=action, target=target, detail=detail
    )


def _minute(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
