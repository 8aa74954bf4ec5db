"""Sessions and forms: nobody makes one without the secret, and they end."""

from __future__ import annotations

import pytest

from shunter.model.key import Key, KeyRing, Role
from shunter.page.session import SESSION_SECONDS, form_token, is_own_form, opened, sealed

SECRET, NOW = b"s" * 32, 1_700_000_000.0
BOSS = Key(name="boss", role=Role.OPERATOR, public="p", token_hash="h", udp_key="")
RING = KeyRing([BOSS])


def test_a_session_holds_until_it_is_over() -> None:
    cookie = sealed(BOSS, now=NOW, secret=SECRET)
    assert opened(cookie, RING, now=NOW + SESSION_SECONDS - 1, secret=SECRET) == BOSS
    assert opened(cookie, RING, now=NOW + SESSION_SECONDS, secret=SECRET) is None


def test_a_session_ends_with_its_key() -> None:
    cookie = sealed(BOSS, now=NOW, secret=SECRET)
    made_anew = Key(name="boss", role=Role.OPERATOR, public="q", token_hash="other", udp_key="")
    assert opened(cookie, KeyRing([]), now=NOW, secret=SECRET) is None
    assert opened(cookie, KeyRing([made_anew]), now=NOW, secret=SECRET) is None


@pytest.mark.parametrize(
    "cookie", ["", "boss", "boss::", "boss:9999999999:", "boss:²:x", ":::", "boss:-1:é" * 40]
)
def test_what_was_not_sealed_opens_nothing(cookie: str) -> None:
    assert opened(cookie, RING, now=NOW, secret=SECRET) is None


def test_a_session_can_not_be_made_longer_or_another_s() -> None:
    name, expiry, mark = sealed(BOSS, now=NOW, secret=SECRET).split(":")
    reader = Key(name="reader", role=Role.READER, public="r", token_hash="r", udp_key="")
    ring = KeyRing([BOSS, reader])
    for forged in (f"{name}:{int(expiry) + 1}:{mark}", f"reader:{expiry}:{mark}"):
        assert opened(forged, ring, now=NOW, secret=SECRET) is None
    assert opened(f"{name}:{expiry}:{mark}", ring, now=NOW, secret=b"x" * 32) is None


def test_a_form_belongs_to_one_session() -> None:
    token = form_token("mine", secret=SECRET)
    assert is_own_form(token, "mine", secret=SECRET)
    assert not is_own_form(token, "yours", secret=SECRET)
    assert not is_own_form("", "mine", secret=SECRET)
    assert not is_own_form("\udc80", "mine", secret=SECRET)
