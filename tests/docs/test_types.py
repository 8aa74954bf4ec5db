"""Editors know what a job takes and returns, and find nothing wrong with the docs' programs.

mypy and pyright each run once, over all of it. Neither loads anything from the network.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import fields

from docs.pages import blocks_in
from shunter.client.options import JobOptions
from shunter.client.submit_options import SubmitOptions

PROJECT = Path(__file__).parents[2]
CALLS = PROJECT / "tests" / "docs" / "types" / "typed_calls.py"
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")])
UNDEFINED = {"name-defined", "reportUndefinedVariable"}
FRAGMENTS = ("keys_", "spark_")
"""Pages that also show lines of a program which the reader has."""

MYPY = ("var-annotated", "import-untyped")
PYRIGHT = {"pythonVersion": "3.11", "typeCheckingMode": "standard"}

_FILE = re.compile(r"# (?P<name>\w+\.py)(, continued)?\n")
_MYPY = re.compile(
    r"(?P<file>.+?):(?P<line>\d+): (?P<kind>error|note): (?P<text>.+?)(  \[(?P<code>[\w-]+)\])?"
)
_REVEALED = re.compile(r'Revealed type is "(?P<mypy>.+)"|Type of ".+" is "(?P<pyright>.+)"')


class Remark(NamedTuple):
    file: str
    line: int
    is_error: bool
    text: str
    code: str | None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of all pages, and the calls; a file that several pages add to is one file."""
    folder = tmp_path_factory.mktemp("typed")
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for page in PAGES:
        for block in blocks_in(page):
            named = _FILE.match(block.code)
            home = f"{page.stem.replace('-', '_')}_{block.line}.py"
            parts[named["name"] if named else home].append(block.code)
    for name, codes in parts.items():
        (folder / name).write_text("\n\n".join(codes), encoding="utf-8")
    (folder / CALLS.name).write_text(CALLS.read_text(encoding="utf-8"))
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    return folder


@pytest.fixture(scope="module")
def by_mypy(folder: Path) -> list[Remark]:
    options = ["--cache-dir", str(PROJECT / ".mypy_cache" / "docs"), "--no-error-summary"]
    options += [word for code in MYPY for word in ("--disable-error-code", code)]
    command = [sys.executable, "-m", "mypy", *options, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    lines = [_MYPY.fullmatch(line) for line in done.stdout.splitlines()]
    return [
        Remark(said["file"], int(said["line"]), said["kind"] == "error", said["text"], said["code"])
        for said in lines
        if said is not None
    ]


@pytest.fixture(scope="module")
def by_pyright(folder: Path) -> list[Remark]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [
        Remark(
            Path(said["file"]).name,
            said["range"]["start"]["line"] + 1,
            said["severity"] == "error",
            said["message"],
            said.get("rule", ""),
        )
        for said in json.loads(done.stdout)["generalDiagnostics"]
    ]


@pytest.fixture(params=["mypy", "pyright"])
def remarks(request: pytest.FixtureRequest) -> list[Remark]:
    found: list[Remark] = request.getfixturevalue(f"by_{request.param}")
    return found


def test_wrong_calls_are_reported_and_no_others(remarks: list[Remark]) -> None:
    lines = CALLS.read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "# wrong: " in line}

    reported = {each.line for each in remarks if each.file == CALLS.name and each.is_error}

    assert reported == wrong
    assert len(wrong) > 15


def test_results_have_the_type_that_the_function_returns(remarks: list[Remark]) -> None:
    lines = CALLS.read_text(encoding="utf-8").splitlines()
    wanted = {
        number: line.rpartition("# ")[2]
        for number, line in enumerate(lines, 1)
        if line.lstrip().startswith("reveal_type(")
    }

    revealed = {
        each.line: (told["mypy"] or told["pyright"]).rpartition(".")[2]
        for each in remarks
        if each.file == CALLS.name and (told := _REVEALED.search(each.text))
    }

    assert revealed == wanted
    assert len(wanted) > 15


def test_the_programs_in_the_docs_are_typed_well(remarks: list[Remark]) -> None:
    faults = [
        f"{each.file}:{each.line}: {each.text}"
        for each in remarks
        if each.is_error
        and each.file != CALLS.name
        and not (each.code in UNDEFINED and each.file.startswith(FRAGMENTS))
    ]

    assert faults == []


def test_with_options_knows_every_option() -> None:
    assert set(SubmitOptions.__annotations__) == {each.name for each in fields(JobOptions)}
