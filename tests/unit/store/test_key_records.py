"""Keys, the system's secret and the audit log, as records of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from shunter.errors import KeyRefused
from shunter.model.key import Key, Role
from shunter.model.record import Record
from shunter.store import key_records
from shunter.store.key_records import AuditEntry
from shunter.store.port import Store
from shunter.testing import MemoryStore


def key(name: str, **fields: object) -> Key:
    return Key(
        name=name,
        role=Role.WORKER,
        public=name.ljust(40, "0"),
        token_hash=f"hash of {name}",
        udp_key="",
        **fields,  # type: ignore[arg-type]
    )


def with_store(act: Callable[[Store], Awaitable[None]], store: Store | None = None) -> None:
    async def run() -> None:
        used = store or MemoryStore()
        await used.open()
        try:
            await act(used)
        finally:
            await used.close()

    asyncio.run(run())


def test_a_key_is_kept_with_all_its_limits_and_its_name_is_never_used_again() -> None:
    async def act(store: Store) -> None:
        first = key("a", types=("paint",), created=1.0)
        await key_records.add_key(store, first)
        await key_records.add_key(store, key("b", namespace="shop"))
        await key_records.revoke_key(store, "a", now=2.0)

        with pytest.raises(KeyRefused, match="there is a key of that name, or was"):
            await key_records.add_key(store, key("a"))

        kept, other = await key_records.keys(store)
        assert kept == key("a", types=("paint",), created=1.0, revoked=2.0)
        assert other == key("b", namespace="shop")

    with_store(act)


def test_a_key_is_revoked_once_and_stays_so() -> None:
    async def act(store: Store) -> None:
        await key_records.add_key(store, key("a"))

        assert (await key_records.revoke_key(store, "a", now=2.0)).revoked == 2.0
        assert (await key_records.revoke_key(store, "a", now=9.0)).revoked == 2.0

        assert [it.revoked for it in await key_records.keys(store)] == [2.0]
        with pytest.raises(KeyRefused, match="there is no key of that name"):
            await key_records.revoke_key(store, "nobody", now=2.0)

    with_store(act)


class ContestedStore(MemoryStore):
    """Refuses the first swap of a record that is there, as if another had been faster."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    async def swap_records(self, records: Sequence[Record]) -> list[bool]:
        if records[0].revision > 1 and not self.refused:
            self.refused += 1
            return [False for _ in records]
        return await super().swap_records(records)


def test_a_key_is_revoked_also_where_somebody_else_changed_it_meanwhile() -> None:
    store = ContestedStore()

    async def act(_: Store) -> None:
        await key_records.add_key(store, key("a"))

        await key_records.revoke_key(store, "a", now=2.0)

        assert store.refused == 1
        assert [it.revoked for it in await key_records.keys(store)] == [2.0]

    with_store(act, store)


def test_the_system_has_one_secret_the_first_that_was_made() -> None:
    async def act(store: Store) -> None:
        assert await key_records.system_secret(store, b"first" * 6) == b"first" * 6
        assert await key_records.system_secret(store, b"later" * 6) == b"first" * 6

    with_store(act)


def test_the_audit_log_is_read_newest_first_and_a_line_stays_as_it_was_written() -> None:
    def line(number: int, actor: str = "boss") -> AuditEntry:
        return AuditEntry(id=f"{number}", at=0.0, actor=actor, action="cancel job", target="j")

    async def act(store: Store) -> None:
        await key_records.note(store, [line(1), line(2), line(3)])
        await key_records.note(store, [line(2, actor="forger")])

        assert await key_records.audited(store, limit=2) == [line(3), line(2)]
        assert await key_records.audited(store, before="2") == [line(1)]

    with_store(act)
