"""The keys of UDP peers, from the one list that all gateways go by."""

from __future__ import annotations

from shunter.gateway.key_list import KeyList
from shunter.model.key import Action, Key
from shunter.wire.udp.keys import Secret, UdpKey, UdpKeys, shared_by_all


def udp_keys(keys: KeyList, secret: Secret | None) -> UdpKeys | None:
    """Return what looks keys up, with a secret that some may share; None if nobody needs one."""
    shared = None if secret is None else shared_by_all(secret)
    if not keys.is_on:
        return shared

    def look_up(name: str) -> UdpKey | None:
        if not name:
            return None if shared is None else shared(name)
        key = keys.ring.named(name)
        return None if key is None else _udp_key(key)

    return look_up


def _udp_key(key: Key) -> UdpKey:
    return UdpKey(
        key.name,
        Secret(bytes.fromhex(key.udp_key)),
        may_add=key.permits(Action.SUBMIT),
        may_perform=key.permits(Action.WORK),
        types=frozenset(key.types) or None,
        namespace=key.namespace,
    )
