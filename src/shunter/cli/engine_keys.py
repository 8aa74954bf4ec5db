"""Whether the key of engines still counts: the list is read each second, in a thread."""

from __future__ import annotations

import asyncio
import threading

import structlog

from shunter.errors import SettingsError, StoreError
from shunter.flow.runners.engines.engine import EngineKeys
from shunter.gateway.key_list import REFRESH_SECONDS, KeyList
from shunter.key_file import engine_pair, read_key_file
from shunter.settings import Settings
from shunter.store.registry import existing_store

FIRST_SECONDS = 20.0
"""How long the first look at the list may take."""


def watched_keys(settings: Settings) -> EngineKeys:
    """Return the key of engines, and start watching the list; raise if it can't be read at all."""
    path = settings.auth.key_file
    pair = engine_pair(path)
    keys = KeyList(read_key_file(path), file=settings.auth.keys)
    watch = _Watch(keys, settings.store.url)
    watch.start()
    watch.wait()
    if not keys.is_known(pair.public):
        source = settings.auth.keys or "the store"
        raise SettingsError(
            "the system",
            "auth.key_file",
            f"{path}, a key that is not in the list ({source})",
            "a key that `shunter key ls` shows; for hosts without the store set auth.keys",
        )
    return EngineKeys(pair, lambda public: public == pair.public and keys.is_known(public))


class _Watch(threading.Thread):
    def __init__(self, keys: KeyList, url: str) -> None:
        super().__init__(name="shunter-keys", daemon=True)
        self._keys, self._url = keys, url
        self._looked = threading.Event()
        self._error: Exception | None = None

    def wait(self) -> None:
        """Return after the first look, or raise what was wrong with it."""
        if not self._looked.wait(FIRST_SECONDS):
            raise StoreError("the list of keys could not be read in time; try again")
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            asyncio.run(self._follow())
        except Exception as error:
            self._error = error
        finally:
            self._looked.set()

    async def _follow(self) -> None:
        store = None
        if not self._keys.file:
            store = await existing_store(self._url)
            await store.open()
        while True:
            try:
                await self._keys.refresh(store)
            except StoreError as error:
                if not self._looked.is_set():
                    raise
                structlog.get_logger().warning("the list of keys can't be read", error=str(error))
            self._looked.set()
            await asyncio.sleep(REFRESH_SECONDS)
