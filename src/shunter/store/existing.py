"""A store that is there already: to open one that is not would make it, as no reader wants."""

from __future__ import annotations

import asyncio
import os

from shunter.errors import StoreError
from shunter.store.memory import MemoryStore
from shunter.store.opening import store_for
from shunter.store.port import Store
from shunter.store.sqlite import SQLiteStore


async def existing_store(url: str) -> Store:
    """Return the store that `url` names, not yet open, or raise a StoreError if none is there."""
    store = store_for(url)
    if isinstance(store, MemoryStore):
        raise StoreError(
            "store memory://: it is in another process's memory; name one in SQLite or MongoDB"
        )
    if isinstance(store, SQLiteStore):
        if not await asyncio.to_thread(os.path.isfile, store.path):
            raise StoreError(
                f"store {store.path}: there is no such file; name the one that the dispatcher has "
                "in store.url (see: shunter config)"
            )
        return store
    await _check_database(url)
    return store


async def _check_database(url: str) -> None:
    from shunter.store.mongo.connection import is_shunters, public_name

    if not await is_shunters(url):
        raise StoreError(
            f"store {public_name(url)}: no dispatcher has used this database; name the one that "
            "the dispatcher has in store.url (see: shunter config)"
        )
