"""Keys for tests: written into a store, and into files as processes have them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import zmq

from shunter.key_file import KeyFile, write_key_file
from shunter.model.key import Key, Role, token_hash, udp_key
from shunter.store.key_records import add_key, revoke_key
from shunter.store.port import Store
from shunter.store.registry import store_for


class KeyMaker:
    """Makes keys in one store, whose dispatchers read the list each second.

    That of the dispatchers is made first. No process is started for a key, as `keyed.py` does.
    """

    def __init__(self, folder: Path, store_url: str) -> None:
        self._folder, self._store_url = folder, store_url
        self.made: list[KeyFile] = []
        self._server = self.new("the-dispatcher", Role.DISPATCHER).public

    def new(
        self, name: str, role: Role, *, types: tuple[str, ...] = (), namespace: str = ""
    ) -> KeyFile:
        public, secret = (part.decode() for part in zmq.curve_keypair())
        token = secrets.token_urlsafe(32)
        key = Key(
            name=name, role=role, public=public, token_hash=token_hash(token),
            udp_key=udp_key(token).hex(), types=types, namespace=namespace, created=time.time(),
        )  # fmt: skip
        self._with_store(lambda store: add_key(store, key))
        server = public if role is Role.DISPATCHER else self._server
        made = KeyFile(
            name=name, role=role, public=public, secret=secret, token=token, server=server
        )  # fmt: skip
        write_key_file(self.path(name), made)
        self.made.append(made)
        return made

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.key.toml"

    def revoke(self, name: str) -> None:
        self._with_store(lambda store: revoke_key(store, name, now=time.time()))

    def _with_store(self, act: Callable[[Store], Coroutine[Any, Any, object]]) -> None:
        async def acted() -> None:
            store: Store = store_for(self._store_url)
            await store.open()
            try:
                await act(store)
            finally:
                await store.close()

        asyncio.run(acted())
