"""The keys that a dispatcher goes by: who may do what now, and what counts if none can be read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from shunter.errors import SettingsError, StoreError
from shunter.gateway.key_list import KeyList
from shunter.gateway.udp.key_look_up import udp_keys
from shunter.key_file import KeyFile
from shunter.model.key import Action, Key, KeyRing, Role, token_hash, udp_key
from shunter.model.record import Record, RecordKind
from shunter.net.transport import KeyedPeers, Peer
from shunter.store import key_records
from shunter.testing import MemoryStore
from shunter.wire.udp.keys import Secret

OWN = KeyFile(
    name="d", role=Role.DISPATCHER, public="p" * 40, secret="s" * 40, token="t" * 40
)  # fmt: skip


def key(name: str, role: Role = Role.CLIENT, **fields: object) -> Key:
    return Key(
        name=name,
        role=role,
        public=name.ljust(40, "0"),
        token_hash=token_hash(name),
        udp_key=udp_key(name).hex(),
        **fields,  # type: ignore[arg-type]
    )


def peer(shown: Key) -> Peer:
    made = Peer(b"identity")
    made.public = shown.public
    return made


def listing(*keys: Key) -> KeyList:
    made = KeyList(OWN)
    made.ring = KeyRing(keys)
    return made


def test_a_peer_may_do_what_its_key_permits_and_a_revoked_one_nothing() -> None:
    shop, gone = key("shop"), key("gone", revoked=1.0)
    keys = listing(shop, gone)

    assert keys.refusal(peer(shop), Action.SUBMIT) is None
    assert "may not serve as a worker" in str(keys.refusal(peer(shop), Action.WORK))
    for stranger in (peer(gone), b"a peer that has shown nothing"):
        assert "was revoked" in str(keys.refusal(stranger, Action.SUBMIT))
    assert [keys.is_known(it.public) for it in (shop, gone)] == [True, False]
    assert keys.of(peer(shop)) == shop
    assert keys.of(peer(gone)) is None


def test_without_keys_everybody_may_do_everything() -> None:
    keys = KeyList(None)

    assert not keys.is_on
    assert keys.refusal(b"anybody", Action.OPERATE) is None
    assert udp_keys(keys, None) is None


def test_the_list_of_the_store_is_read_again_and_the_last_one_counts_while_it_can_t_be() -> None:
    async def act() -> None:
        store, keys = MemoryStore(), KeyList(OWN)
        await store.open()
        await key_records.add_key(store, key("a"))
        await keys.open(store, b"fresh" * 6)
        assert keys.secret == b"fresh" * 6
        assert keys.is_known(key("a").public)

        await key_records.revoke_key(store, "a", now=1.0)
        await key_records.add_key(store, key("b"))
        await keys.refresh(store)
        assert [keys.is_known(key(name).public) for name in "ab"] == [False, True]

        await store.close()
        with pytest.raises(StoreError):
            await keys.refresh(store)
        assert keys.is_known(key("b").public)

    asyncio.run(act())


def test_the_list_of_a_file_is_read_again_when_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"

    def write(*keys: Key) -> None:
        beside = tmp_path / "beside"
        beside.write_bytes(msgspec.json.encode(keys))
        beside.rename(path)

    async def act() -> None:
        keys = KeyList(OWN, file=str(path))
        with pytest.raises(SettingsError, match=r"keys\.json"):
            await keys.refresh(None)
        write(key("a"))
        await keys.refresh(None)
        assert keys.is_known(key("a").public)

        write(key("a", revoked=1.0), key("b"))
        await keys.refresh(None)
        assert [keys.is_known(key(name).public) for name in "ab"] == [False, True]

        path.write_text("half of a li")
        await keys.refresh(None)
        os.unlink(path)
        await keys.refresh(None)
        assert keys.is_known(key("b").public), "the last one that could be read"

    asyncio.run(act())


def test_a_file_s_list_counts_even_where_there_is_a_store(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(msgspec.json.encode([key("a")]))

    async def act() -> None:
        store, keys = MemoryStore(), KeyList(OWN, file=str(path))
        await store.open()
        await key_records.add_key(store, key("b"))
        await keys.refresh(store)
        assert [keys.is_known(key(name).public) for name in "ab"] == [True, False]
        await store.close()

    asyncio.run(act())


@pytest.mark.parametrize("role", list(Role))
def test_over_udp_a_key_has_the_same_rights(role: Role) -> None:
    shown = key("k", role, types=("sum",), namespace="shop")
    look_up = udp_keys(listing(shown, key("gone", revoked=1.0)), None)
    assert look_up is not None
    found = look_up("k")

    assert found is not None
    assert (found.may_add, found.may_perform) == (
        shown.permits(Action.SUBMIT),
        shown.permits(Action.WORK),
    )
    assert (found.types, found.namespace) == ({"sum"}, "shop")
    assert found.secret.mac(b"x") == Secret(udp_key("k")).mac(b"x")
    assert look_up("gone") is None
    assert look_up("") is None, "nobody shares a secret here"


def test_nothing_is_sent_to_who_has_not_spoken_or_whose_key_is_revoked() -> None:
    known = {key("a").public}
    peers = KeyedPeers(known.__contains__)
    assert not peers.may_receive(b"identity")

    peers.heard(peer(key("a")))
    assert peers.may_receive(b"identity")
    known.clear()
    assert not peers.may_receive(b"identity")


def test_the_newest_key_of_an_identity_counts() -> None:
    known = {key("a").public}
    peers = KeyedPeers(known.__contains__)
    peers.heard(peer(key("a")))

    peers.heard(peer(key("b")))

    assert not peers.may_receive(b"identity")


def test_records_of_another_kind_are_no_keys() -> None:
    async def act() -> None:
        store, keys = MemoryStore(), KeyList(OWN)
        await store.open()
        forged = msgspec.json.encode(key("a"))
        await store.swap_records([Record(kind=RecordKind.AUDIT, name="a", document=forged)])
        await keys.refresh(store)
        assert not keys.is_known(key("a").public)
        await store.close()

    asyncio.run(act())
