"""The table of what opens which operation over HTTP: complete, and gone by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.requests import Request

from shunter.gateway.http.access import ACCESS, AccessControl, key_of
from shunter.gateway.http.openapi import OPERATIONS, Operation, openapi_document
from shunter.gateway.key_list import KeyList
from shunter.key_file import KeyFile
from shunter.model.key import RIGHTS, Action, Key, KeyRing, Role, token_hash
from shunter.net.web.refusals import HttpRefusal

OPEN = {"healthz", "readyz"}
OWN = KeyFile(
    name="d", role=Role.DISPATCHER, public="p" * 40, secret="s" * 40, token="t" * 40
)  # fmt: skip


def token_of(role: Role) -> str:
    return f"token-of-a-{role}-which-is-long-enough"


def key_for(role: Role) -> Key:
    return Key(
        name=f"a-{role}", role=role, public=f"{role:x<40}", token_hash=token_hash(token_of(role)),
        udp_key="",
    )  # fmt: skip


@pytest.fixture
def control() -> AccessControl:
    keys = KeyList(OWN)
    keys.ring = KeyRing(key_for(role) for role in Role)
    return AccessControl(keys)


def request(*headers: tuple[str, str]) -> Request:
    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": sent})


def bearing(token: str) -> Request:
    return request(("Authorization", f"Bearer {token}"))


def test_every_operation_has_a_row_and_none_is_left_over() -> None:
    assert set(ACCESS) == {operation.id for operation in OPERATIONS}
    assert {name for name, opening in ACCESS.items() if opening is None} == OPEN


def test_every_action_of_a_role_opens_something() -> None:
    opened = {
        action for name, actions in ACCESS.items() if name != "openapi" for action in actions or ()
    }

    assert opened == set(Action)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("operation", sorted(ACCESS))
def test_a_role_gets_through_to_what_its_rights_open(
    control: AccessControl, operation: str, role: Role
) -> None:
    opening, asked = ACCESS[operation], bearing(token_of(role))

    if opening is None:
        control.admit(operation, asked)
        assert key_of(asked) is None
    elif RIGHTS[role] & set(opening):
        control.admit(operation, asked)
        assert key_of(asked) == key_for(role)
    else:
        with pytest.raises(HttpRefusal, match=rf"is a {role}'s and may not {opening[0]}") as caught:
            control.admit(operation, asked)
        assert (caught.value.status, caught.value.detail.code) == (403, "forbidden")
        assert key_of(asked) is None


@pytest.mark.parametrize("operation", sorted(set(ACCESS) - OPEN))
@pytest.mark.parametrize(
    "asked",
    [
        request(),
        bearing(""),
        bearing("unknown"),
        bearing("gr\xfc\xdfe"),
        bearing(token_hash(token_of(Role.OPERATOR))),
        request(("Authorization", token_of(Role.OPERATOR))),
        request(("Authorization", f"Basic {token_of(Role.OPERATOR)}")),
        request(("Cookie", f"Authorization=Bearer {token_of(Role.OPERATOR)}")),
        request(
            ("Authorization", "Bearer unknown"),
            ("Authorization", f"Bearer {token_of(Role.OPERATOR)}"),
        ),
        request(
            ("Authorization", f"Bearer {token_of(Role.OPERATOR)}"),
            ("Authorization", "Bearer unknown"),
        ),
    ],
)  # fmt: skip
def test_who_shows_no_key_that_counts_hears_the_same(
    control: AccessControl, operation: str, asked: Request
) -> None:
    with pytest.raises(HttpRefusal) as missing:
        control.admit(operation, request())
    with pytest.raises(HttpRefusal) as caught:
        control.admit(operation, asked)

    assert caught.value.status == 401
    assert caught.value.headers == {"WWW-Authenticate": "Bearer"}
    assert caught.value.detail == missing.value.detail


def test_the_scheme_may_be_written_in_any_case(control: AccessControl) -> None:
    asked = request(("authorization", f"bEARER  {token_of(Role.CLIENT)} "))

    control.admit("submit", asked)

    assert key_of(asked) == key_for(Role.CLIENT)


def test_a_revoked_key_counts_no_more_at_the_next_request() -> None:
    keys = KeyList(OWN)
    keys.ring = KeyRing([key_for(Role.CLIENT)])
    control = AccessControl(keys)
    control.admit("submit", bearing(token_of(Role.CLIENT)))

    keys.ring = KeyRing()

    with pytest.raises(HttpRefusal):
        control.admit("submit", bearing(token_of(Role.CLIENT)))


@pytest.mark.parametrize("operation", sorted(ACCESS))
def test_without_keys_nobody_is_asked(operation: str) -> None:
    asked = request()

    AccessControl(KeyList(None)).admit(operation, asked)

    assert key_of(asked) is None


def test_openapi_tells_of_keys_where_they_are_demanded() -> None:
    described = openapi_document("1", has_keys=True)

    assert described["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for operation in OPERATIONS:
        found = described["paths"][operation.path][operation.method.lower()]
        is_locked = operation.id not in OPEN
        assert ("security" in found) is is_locked
        assert ({"401", "403"} <= set(found["responses"])) is is_locked
    assert "securitySchemes" not in openapi_document("1")["components"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_the_spec_names_the_roles_that_get_through(operation: Operation) -> None:
    spec = (Path(__file__).parents[3] / "docs" / "spec" / "http.md").read_text(encoding="utf-8")
    table = spec.partition("| operation | opened by the right to | roles |")[2]
    name, opening = f"`{operation.method} {operation.path}`", ACCESS[operation.id]
    [(rights, roles)] = re.findall(
        rf"^\| [^|]*{re.escape(name)}[^|]*\|([^|]*)\|(.*)\|$", table, re.MULTILINE
    )

    if opening is None:
        assert "anybody" in roles
    elif operation.id == "openapi":
        assert "all but dispatcher" in roles
    else:
        assert all(action in rights for action in opening)
        named = {role for role in Role if re.search(rf"\b{role}\b", roles)}
        assert named == {role for role in Role if RIGHTS[role] & set(opening)}
