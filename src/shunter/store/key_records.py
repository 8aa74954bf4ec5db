"""Keys, the audit log and the system's secret, as records of the store.

Shared by dispatchers, which read them, and by `shunter key`, which writes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.errors import KeyRefused
from shunter.model.key import Key
from shunter.model.record import Record, RecordKind
from shunter.store.port import Store

SYSTEM_SECRET = "system"  # noqa: S105
SECRET_BYTES = 32


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who did what to whom, and when. `id` orders them; `actor` is a key's name, or a user's."""

    id: str
    at: float
    actor: str
    action: str
    target: str
    detail: str = ""


async def keys(store: Store) -> list[Key]:
    """Return all keys, those that were revoked as well."""
    found = await store.records(RecordKind.KEY)
    return [msgspec.json.decode(it.document or b"", type=Key) for it in reversed(found)]


async def add_key(store: Store, key: Key) -> None:
    """Write a new key, or raise KeyRefused if its name is taken: names are never used again."""
    [is_new] = await store.swap_records([_record(key, 1)])
    if not is_new:
        raise KeyRefused(key.name, "there is a key of that name, or was", "take another name")


async def revoke_key(store: Store, name: str, *, now: float) -> Key:
    """Mark a key as revoked; doing so twice changes nothing."""
    while True:
        found = {it.name: it for it in await store.records(RecordKind.KEY)}
        if name not in found:
            raise KeyRefused(name, "there is no key of that name", "look at `shunter key ls`")
        stored = found[name]
        key = msgspec.json.decode(stored.document or b"", type=Key)
        if key.revoked is not None:
            return key
        revoked = replace(key, revoked=now)
        [is_done] = await store.swap_records([_record(revoked, stored.revision + 1)])
        if is_done:
            return revoked


async def system_secret(store: Store, fresh: bytes) -> bytes:
    """Return the secret that all dispatchers of a store share; the first one's `fresh` it is."""
    made = Record(
        kind=RecordKind.SECRET, name=SYSTEM_SECRET, document=msgspec.json.encode(fresh.hex())
    )
    if not await _read_secret(store):
        await store.swap_records([made])
    return await _read_secret(store)


async def _read_secret(store: Store) -> bytes:
    for found in await store.records(RecordKind.SECRET):
        if found.name == SYSTEM_SECRET and found.document is not None:
            return bytes.fromhex(msgspec.json.decode(found.document, type=str))
    return b""


async def note(store: Store, entries: Sequence[AuditEntry]) -> None:
    """Write lines of the audit log; one that stands there already stays."""
    await store.swap_records(
        [
            Record(kind=RecordKind.AUDIT, name=entry.id, document=msgspec.json.encode(entry))
            for entry in entries
        ]
    )


async def audited(store: Store, *, before: str | None = None, limit: int = 50) -> list[AuditEntry]:
    """Return a page of the audit log, the newest first."""
    found = await store.records(RecordKind.AUDIT, before=before, limit=limit)
    return [msgspec.json.decode(it.document or b"", type=AuditEntry) for it in found]


def _record(key: Key, revision: int) -> Record:
    return Record(
        kind=RecordKind.KEY,
        name=key.name,
        revision=revision,
        document=msgspec.json.encode(key),
    )
