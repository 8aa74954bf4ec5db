"""Which dispatchers were here lately, one document each."""

from __future__ import annotations

import msgspec

from shunter.model.presence import KEPT_SECONDS, Presence
from shunter.store.mongo.connection import MongoConnection


async def meet(connection: MongoConnection, presence: Presence) -> list[Presence]:
    """Write that a dispatcher is here, drop those long gone, and return all that are left."""
    document = msgspec.to_builtins(presence)
    name = document.pop("dispatcher_id")
    await connection.dispatchers.replace_one({"_id": name}, document, upsert=True)
    await connection.dispatchers.delete_many({"clock": {"$lt": presence.clock - KEPT_SECONDS}})
    return await presences(connection)


async def presences(connection: MongoConnection) -> list[Presence]:
    """Return all that were here."""
    found = await connection.all_of(connection.dispatchers.find().sort("_id"))
    return [msgspec.convert({**other, "dispatcher_id": other["_id"]}, Presence) for other in found]
