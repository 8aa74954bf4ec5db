"""The programs of what newcomers read first run, and print what they say.

Blocks that begin with a comment such as `# bakery.py` are parts of that file. The others are
programs, run in order: each on a sandbox of the page's app, and again with real processes, since a
sandbox has as many slots as it likes.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import shunter.client.addresses
from docs.pages import Block, blocks_in, printed_by
from docs.real_up import real_up
from docs.test_guide import expectations
from shunter.testing import Sandbox
from shunter.testing.sandbox_session import reaching

DOCS = Path(__file__).parents[2] / "docs"
APPS = {
    "tutorial.md": "bakery",
    "guide/testing.md": "greetings",
    "guide/recipes.md": "office",
    "guide/coming-from-celery.md": "photos",
}

_FILE = re.compile(r"# (?P<name>\w+)\.py(, continued)?\n")


def files_of(page: Path) -> dict[str, str]:
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for block in blocks_in(page):
        if named := _FILE.match(block.code):
            parts[named["name"]].append(block.code)
    return {name: "\n\n".join(codes) for name, codes in parts.items()}


def programs_of(page: Path) -> list[Block]:
    return [block for block in blocks_in(page) if not _FILE.match(block.code)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) == str(tmp_path / f"{name}.py"):
            del sys.modules[name]


@pytest.mark.parametrize("name", APPS)
def test_the_programs_of_a_page_print_what_they_say(name: str, folder: Path) -> None:
    for module, code in files_of(DOCS / name).items():
        (folder / f"{module}.py").write_text(code, encoding="utf-8")
        compile(code, f"{module}.py", "exec")
    app = importlib.import_module(APPS[name]).app
    programs = programs_of(DOCS / name)

    for block in programs:
        with Sandbox(app) as sandbox, reaching(sandbox):
            wanted = list(expectations(block.code).values())
            assert printed_by(block, {}) == wanted, f"{name}:{block.line}"
    assert len(programs) >= 2


@pytest.mark.parametrize("name", ["tutorial.md", "guide/recipes.md", "guide/coming-from-celery.md"])
def test_the_programs_of_a_page_print_the_same_with_two_slots(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, code in files_of(DOCS / name).items():
        (folder / f"{module}.py").write_text(code, encoding="utf-8")

    with real_up(folder, f"{APPS[name]}.py") as address:
        monkeypatch.setattr(shunter.client.addresses, "DEFAULT_ADDRESS", address)
        for block in programs_of(DOCS / name):
            wanted = list(expectations(block.code).values())
            assert printed_by(block, {}) == wanted, f"{name}:{block.line}"


@pytest.mark.parametrize(("page", "module"), [("tutorial.md", "test_bakery")])
def test_the_tests_of_a_page_pass(page: str, module: str, folder: Path) -> None:
    for each, code in files_of(DOCS / page).items():
        (folder / f"{each}.py").write_text(code, encoding="utf-8")
    tests = vars(importlib.import_module(module))

    found = [test for name, test in tests.items() if name.startswith("test_")]
    for test in found:
        test()
    assert len(found) >= 3


def test_the_flow_of_the_readme_says_what_it_says(folder: Path) -> None:
    page = DOCS.parent / "README.md"
    text = page.read_text(encoding="utf-8")
    (folder / "hot.py").write_text(files_of(page)["hot"], encoding="utf-8")
    shown = re.search(r"\$ echo '(?P<event>.+)' > readings.jsonl\n.*\n(?P<change>.+)\n", text)
    assert shown is not None
    (folder / "readings.jsonl").write_text(shown["event"] + "\n")

    importlib.import_module("hot").flow.run("local")

    assert (folder / "changes.jsonl").read_text() == shown["change"] + "\n"


def test_the_readme_stays_short() -> None:
    assert len((DOCS.parent / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
