"""Each promise in the specifications names a test, and that test is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SPECS = sorted((PROJECT / "docs" / "spec").glob("*.md"))

_TEST = re.compile(r"`(?P<path>tests/[\w/.]+?)(?:::(?P<name>\w+))?`")


def named_in(page: Path) -> list[tuple[str, str | None]]:
    return [(found["path"], found["name"]) for found in _TEST.finditer(page.read_text())]


@pytest.mark.parametrize("page", SPECS, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    for path, name in named_in(page):
        place = PROJECT / path
        assert place.exists(), path
        if name is not None:
            assert f"def {name}(" in place.read_text(), f"{path}::{name}"


def test_every_promise_of_a_dispatcher_names_its_test() -> None:
    page = (PROJECT / "docs" / "spec" / "dispatcher.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    promises = [row for row in rows if not row.startswith(("| promise", "| check"))]

    assert len(promises) > 20
    assert [row for row in promises if not _TEST.search(row)] == []
