"""Key files: written for their owner alone, and read only if they are."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from shunter.errors import SettingsError
from shunter.key_file import KeyFile, engine_pair, read_caller_key, read_key_file, write_key_file
from shunter.model.key import Role

KEY = KeyFile(
    name="shop",
    role=Role.CLIENT,
    public="p" * 40,
    secret="{[()]}*?&<>@%$#=^!/.-:+" + "s" * 17,
    token="t" * 64,
    server="d" * 40,
)


def test_a_key_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_key_file(tmp_path / "shop.key", KEY)

    assert read_key_file(str(tmp_path / "shop.key")) == KEY
    assert stat.S_IMODE((tmp_path / "shop.key").stat().st_mode) == 0o600


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "shop.key").write_text("mine")

    with pytest.raises(SettingsError, match="which is there already"):
        write_key_file(tmp_path / "shop.key", KEY)

    assert (tmp_path / "shop.key").read_text() == "mine"


def test_a_file_that_others_may_read_is_refused_with_what_to_type(tmp_path: Path) -> None:
    path = tmp_path / "shop.key"
    write_key_file(path, KEY)
    path.chmod(0o640)

    with pytest.raises(SettingsError, match=f"mode 0640: others may read it.*chmod 600 {path}"):
        read_key_file(str(path))


@pytest.mark.parametrize("text", ["", "name = 'x'", "\0", "name = ["])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    path.chmod(0o600)

    with pytest.raises(SettingsError, match=r"auth\.key_file"):
        read_key_file(str(path))


def test_a_key_of_another_role_is_refused_where_one_is_needed(tmp_path: Path) -> None:
    write_key_file(tmp_path / "k", KEY)

    with pytest.raises(SettingsError, match=r"it is the key of a client.*the key of a worker"):
        read_caller_key(str(tmp_path / "k"), Role.WORKER)
    with pytest.raises(SettingsError, match="it is the key of a client"):
        engine_pair(str(tmp_path / "k"))


def test_what_proves_a_key_is_not_in_its_text() -> None:
    assert KEY.secret not in repr(KEY)
    assert KEY.token not in repr(KEY)
    assert KEY.secret not in repr(KEY.pair)
