"""What the pages tell to type and to set works as it stands there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from shunter.net.exposure import check_exposure
from shunter.settings import Settings

PROJECT = Path(__file__).parents[2]
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")])

_CURL = re.compile(r"curl [^\n]*127\.0\.0\.1:(?P<port>\d+)/dispatcher/[^\n]*")
_TOML = re.compile(r"^```toml\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def calls() -> list[tuple[str, str, int]]:
    return [
        (page.name, found[0], int(found["port"]))
        for page in PAGES
        for found in _CURL.finditer(page.read_text(encoding="utf-8"))
    ]


def test_calls_go_to_the_port_that_is_the_default_and_say_what_they_send() -> None:
    assert len(calls()) >= 4
    for page, call, port in calls():
        assert port == Settings().http.port, f"{page}: {call}"
        if " -d " in call:
            assert "Content-Type: application/json" in call, f"{page}: {call}"


@pytest.mark.parametrize("page", ["jobs.md", "keys.md"])
def test_a_dispatcher_for_other_hosts_is_shown_with_its_key(page: str) -> None:
    text = (PROJECT / "docs" / "guide" / page).read_text(encoding="utf-8")
    tables = [tomllib.loads(found["text"]) for found in _TOML.finditer(text)]
    listening = [table for table in tables if "frontend" in table.get("zmq", {})]

    assert listening
    for table in listening:
        for name in ("frontend", "backend"):
            is_guarded = bool(table.get("auth", {}).get("key_file"))
            check_exposure(f"zmq.{name}", table["zmq"][name], is_guarded=is_guarded, remedy="")
