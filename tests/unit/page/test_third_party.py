"""Libraries of others come with the page as they were published, with their licences."""

from __future__ import annotations

import tomllib
from hashlib import sha256
from importlib.resources import files

import pytest

from shunter.page.markup import asset

FOLDER = files("shunter.page").joinpath("static", "third_party")
PARTS = tomllib.loads(FOLDER.joinpath("parts.toml").read_text())


def test_every_folder_is_listed() -> None:
    assert {it.name for it in FOLDER.iterdir() if it.is_dir()} == set(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_a_library_is_what_was_published(name: str) -> None:
    part = PARTS[name]
    found = {it.name: sha256(it.read_bytes()).hexdigest() for it in FOLDER.joinpath(name).iterdir()}
    assert found == part["sha256"]
    assert "LICENSE" in found
    assert part["license"] in FOLDER.joinpath(name, "LICENSE").read_text()
    assert part["purl"].endswith(f"@{part['version']}")


def test_scripts_of_others_are_served_and_nothing_else_of_their_folder() -> None:
    content, media_type = asset("uPlot.iife.min.js") or (b"", "")
    assert (b"v1.6.32" in content, media_type) == (True, "text/javascript")
    for name in ("LICENSE", "parts.toml", "uplot", "third_party", "third_party/uplot/LICENSE"):
        assert asset(name) is None
