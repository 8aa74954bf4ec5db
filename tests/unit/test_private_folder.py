"""Folders for sockets are this user's alone."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from shunter.errors import ShunterError
from shunter.private_folder import private_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"shunter-{os.getuid()}"


def test_it_is_made_for_its_user_alone(temporary: Path) -> None:
    folder = private_folder("127.0.0.1")

    assert folder == temporary / "127.0.0.1"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (temporary, folder)] == [0o700, 0o700]
    assert private_folder("127.0.0.1") == folder


def test_the_system_s_own_place_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))

    assert private_folder() == runtime / "shunter"


def test_a_place_of_the_system_that_others_reach_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))

    assert private_folder() == temporary


def test_a_folder_that_others_may_write_to_is_refused(temporary: Path) -> None:
    temporary.mkdir()
    temporary.chmod(0o777)

    with pytest.raises(ShunterError, match=r"others may write to it \(mode 0777\); remove it"):
        private_folder()


def test_a_folder_that_others_could_read_is_closed(temporary: Path) -> None:
    temporary.mkdir()
    temporary.chmod(0o755)

    assert stat.S_IMODE(private_folder().stat().st_mode) == 0o700


def test_a_link_to_elsewhere_is_refused(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    temporary.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ShunterError, match="it is no folder"):
        private_folder()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's folder can be made by root alone")
def test_a_folder_of_another_user_s_is_refused(temporary: Path) -> None:
    temporary.mkdir(mode=0o700)
    os.chown(temporary, 1000, 1000)

    with pytest.raises(ShunterError, match=r"belongs to another user \(1000\)"):
        private_folder("127.0.0.1")
