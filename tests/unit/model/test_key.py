"""Keys: what each role may do, which keys count, and what binds a run."""

from __future__ import annotations

import itertools

import pytest

from shunter.model.key import (
    RIGHTS,
    Action,
    Key,
    KeyRing,
    Role,
    run_secret,
    token_hash,
    udp_key,
)


def key(name: str = "k", role: Role = Role.CLIENT, **fields: object) -> Key:
    return Key(
        name=name,
        role=role,
        public=name.ljust(40, "0"),
        token_hash=token_hash(f"token of {name}"),
        udp_key=udp_key(f"token of {name}").hex(),
        **fields,  # type: ignore[arg-type]
    )


def test_every_role_has_rights_and_every_action_somebody_who_may_do_it() -> None:
    assert set(RIGHTS) == set(Role)
    assert frozenset().union(*RIGHTS.values()) == set(Action)


@pytest.mark.parametrize(("role", "action"), list(itertools.product(Role, Action)))
def test_a_key_may_do_what_the_table_says_and_is_told_what_it_may_not(
    role: Role, action: Action
) -> None:
    refusal = key(role=role).refusal(action)

    assert (refusal is None) == (action in RIGHTS[role])
    if refusal is not None:
        assert f"key 'k' is a {role}'s and may not {action}" in refusal


def test_nobody_but_workers_may_answer_for_jobs_and_nobody_but_operators_change_others() -> None:
    assert [role for role in Role if key(role=role).permits(Action.WORK)] == [Role.WORKER]
    assert [role for role in Role if key(role=role).permits(Action.OPERATE)] == [Role.OPERATOR]


def test_a_worker_serves_the_types_of_its_key_or_any() -> None:
    assert key(role=Role.WORKER).serves("anything")
    assert key(role=Role.WORKER, types=("a", "b")).serves("b")
    assert not key(role=Role.WORKER, types=("a", "b")).serves("c")
    assert not key(role=Role.CLIENT).serves("a")


def test_a_worker_is_its_keys_if_the_keys_whole_name_stands_before_it() -> None:
    assert key("a").owns_worker("a:w-1")
    assert not key("a").owns_worker("a.b:w-1")
    assert not key("a").owns_worker("w-1")


def test_clients_see_their_namespace_and_operators_without_one_see_all() -> None:
    assert [key(namespace="shop").sees(it) for it in ("shop", "", "other")] == [True, False, False]
    assert [key().sees(it) for it in ("", "shop")] == [True, False]
    for role in (Role.OPERATOR, Role.READER):
        assert key(role=role).sees("shop")
        assert not key(role=role, namespace="other").sees("shop")


def test_a_ring_finds_keys_by_what_they_are_shown_as_and_forgets_the_revoked() -> None:
    one, two = key("one"), key("two", revoked=5.0)
    ring = KeyRing([one, two])

    assert len(ring) == 1
    assert ring.named("one") == ring.with_public(one.public) == one
    assert ring.with_token("token of one") == one
    assert ring.with_token("token of two") is None
    assert ring.with_public(two.public) is None
    assert ring.named("two") is None


def test_what_is_kept_of_a_token_is_neither_the_token_nor_what_signs_packets() -> None:
    assert "token" not in token_hash("token")
    assert token_hash("token") != udp_key("token").hex()


def test_a_runs_secret_is_its_own() -> None:
    secrets = {
        run_secret(system, job, attempt)
        for system in (b"a" * 32, b"b" * 32)
        for job in ("j", "k", "j/1")
        for attempt in (1, 2)
    }

    assert len(secrets) == 12
    assert run_secret(b"a" * 32, "j", 1) == run_secret(b"a" * 32, "j", 1)
