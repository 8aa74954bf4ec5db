"""`shunter key`: which keys can be made, by which key dispatchers are known, and who did it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.cli.key_administration import KeyAdministration, check
from shunter.errors import KeyRefused, SettingsError
from shunter.key_file import read_key_file
from shunter.model.key import Role


@pytest.mark.parametrize(
    ("name", "role", "types", "namespace", "fault"),
    [
        ("", Role.CLIENT, (), "", "no name for a key"),
        ("a:b", Role.WORKER, (), "", "no name for a key"),
        ("-a", Role.CLIENT, (), "", "no name for a key"),
        ("a" * 65, Role.CLIENT, (), "", "no name for a key"),
        ("a\n", Role.CLIENT, (), "", "no name for a key"),
        *(("a", role, ("paint",), "", "serves no types") for role in Role if role != "worker"),
        ("a", Role.WORKER, ("paint", "no name\0"), "", "is no type of job"),
        ("a", Role.WORKER, (), "shop", "a worker has no namespace"),
        ("a", Role.DISPATCHER, (), "shop", "a dispatcher has no namespace"),
        ("a", Role.CLIENT, (), "a/b", "is no namespace"),
    ],
)
def test_a_key_that_would_mean_nothing_or_too_much_is_not_made(
    name: str, role: Role, types: tuple[str, ...], namespace: str, fault: str
) -> None:
    with pytest.raises(KeyRefused, match=fault):
        check(name, role, types, namespace)


def test_what_a_key_may_be_limited_to_is_accepted() -> None:
    check("a.b-c_1", Role.WORKER, ("paint", "print"), "")
    for role in (Role.CLIENT, Role.READER, Role.OPERATOR):
        check("a", role, (), "shop")


class Keys:
    """Keys in a store of their own, and their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.administration = KeyAdministration(f"sqlite:///{folder}/keys.db", None)

    def make(self, name: str, role: Role, path: str = "") -> Path:
        made = self._folder / (path or f"{name}.key")
        self.administration.make(name, role, types=(), namespace="", path=made)
        return made


def test_files_name_the_newest_key_of_dispatchers_that_counts(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    with pytest.raises(KeyRefused, match="no key yet by which dispatchers are known"):
        keys.make("early", Role.CLIENT)
    old, new = (read_key_file(str(keys.make(name, Role.DISPATCHER))) for name in ("old", "new"))
    assert old.server == old.public

    first = read_key_file(str(keys.make("first", Role.CLIENT)))
    keys.administration.revoke("new")
    second = read_key_file(str(keys.make("second", Role.CLIENT)))

    assert (first.server, second.server) == (new.public, old.public)


def test_a_file_that_is_there_stays_and_no_key_is_made(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    path = keys.make("dispatchers", Role.DISPATCHER)
    before = path.read_bytes()

    with pytest.raises(SettingsError, match="which is there"):
        keys.make("other", Role.CLIENT, path.name)

    assert path.read_bytes() == before
    assert [key.name for key in keys.administration.listed()] == ["dispatchers"]


def test_who_makes_and_revokes_keys_is_written_down(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    keys.make("dispatchers", Role.DISPATCHER)
    keys.administration.revoke("dispatchers")

    found = keys.administration.audited(before=None, limit=10)

    assert [(it.action, it.target) for it in found] == [
        ("revoke key", "dispatchers"),
        ("make key", "dispatchers"),
    ]
    assert all("@" in it.actor for it in found)
