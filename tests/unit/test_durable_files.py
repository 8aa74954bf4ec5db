"""Files that must survive a crash are written in one place, and in an order that a crash bears."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from shunter.durable_files import write_whole
from shunter.key_file import KeyFile, write_key_file
from shunter.model.key import Role
from unit.test_layers import SOURCE, module_name


def test_nobody_else_calls_fsync() -> None:
    found = [
        module_name(path)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("fsync", "fdatasync")
    ]

    assert set(found) == {"durable_files"}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the disk, in order."""
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        done.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}').rpartition('/')[2]}")
        sync(descriptor)

    def noted_replace(old: str, new: str) -> None:
        done.append(f"rename {Path(old).name} to {Path(new).name}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return done


def test_contents_are_on_the_disk_before_their_name_and_the_name_before_the_end(
    steps: list[str], tmp_path: Path
) -> None:
    write_whole(tmp_path / "x", b"all of it", staged=tmp_path / "x.part")

    assert steps == ["sync x.part", "rename x.part to x", f"sync {tmp_path.name}"]
    assert (tmp_path / "x").read_bytes() == b"all of it"


def test_the_name_of_a_new_key_file_survives_too(steps: list[str], tmp_path: Path) -> None:
    key = KeyFile(name="anna", role=Role.READER, public="p", secret="s", token="t")
    write_key_file(tmp_path / "anna.key", key)

    assert steps == ["sync anna.key", f"sync {tmp_path.name}"]
