"""What the guide says of flows is true: its programs run, its pictures are those of its flows.

Blocks that begin with a comment such as `# states.py` are files. The others are programs, run in
order; what they print is compared with the comment behind each `print`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import Block, blocks_in, expectations, printed_by
from shunter.flow.loader import load
from shunter.flow.pictures.drawing import as_svg

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "guide" / "flows.md"
PICTURES = PROJECT / "docs" / "pictures"

TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = blocks_in(PAGE)
FILES = {block.file: block.code for block in BLOCKS if block.file is not None}
PROGRAMS = [block for block in BLOCKS if block.file is None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the guide, which can be imported from there."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "readings.jsonl").write_text('{"machine": "saw", "celsius": 91.5}\n')
    return tmp_path


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: f"line-{block.line}")
def test_a_program_of_the_guide_prints_what_it_says(block: Block, folder: Path) -> None:
    printed = printed_by(block, {})

    assert printed == expectations(block.code)
    assert printed


@pytest.mark.parametrize("on", ["local", "engines"])
def test_the_first_flow_finds_the_hot_machine(folder: Path, on: str) -> None:
    words = ["flow", "run", "--on", on, "temperatures.py", "--json"]
    command = [sys.executable, "-m", "shunter", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    said = (folder / "changes.jsonl").read_text()
    assert said == '{"machine":"saw","is":"hot"}\n'
    assert said in TEXT
    assert [stage["name"] for stage in json.loads(done.stdout)["stages"]] == [
        "readings", "Watch", "changes",
    ]  # fmt: skip


def test_pictures_are_those_of_the_flows(folder: Path) -> None:
    drawn = {
        "orders.svg": PROJECT / "examples" / "orders" / "flow.py",
        "temperatures.svg": folder / "temperatures.py",
    }

    assert sorted(path.name for path in PICTURES.iterdir()) == sorted(drawn)
    for name, file in drawn.items():
        assert (PICTURES / name).read_text() == as_svg(load(str(file))), name
