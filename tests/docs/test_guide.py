"""The code in the guide and the README works: it compiles, imports what exists, and runs.

Blocks that begin with a comment such as `# tasks.py` are parts of that file. The others are
programs. Those of the guide are run, in order, against a real dispatcher and worker, and what
they print is compared with the comment behind each `print`.
"""

from __future__ import annotations

import ast
import importlib
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

import shunter.client.addresses
from docs.real_up import real_up

PROJECT = Path(__file__).parents[2]
GUIDES = (
    "docs/guide/jobs.md",
    "docs/guide/reruns.md",
    "docs/guide/workflows.md",
    "docs/guide/durable-steps.md",
)
PAGES = (*GUIDES, "README.md")
DEFAULT_FRONTEND = "tcp://127.0.0.1:5560"

_FENCE = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>\w+)\.py(, continued)?\n")


class Block(NamedTuple):
    page: str
    line: int
    code: str

    @property
    def module(self) -> str | None:
        """The file that this block is a part of, without its ending."""
        found = _FILE.match(self.code)
        return found["name"] if found else None

    def compiled(self, code: str | None = None) -> CodeType:
        return compile(code or self.code, f"{self.page}:{self.line}", "exec")


def blocks_of(page: str) -> list[Block]:
    text = (PROJECT / page).read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 2, found["code"])
        for found in _FENCE.finditer(text)
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PROGRAMS = [block for page in GUIDES for block in blocks_of(page) if block.module is None]


def named(block: Block) -> str:
    return f"{Path(block.page).stem}-{block.line}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files that the pages tell to write, where they can be imported."""
    folder = tmp_path_factory.mktemp("guide")
    modules = {block.module for block in BLOCKS if block.module}
    for module in modules:
        parts = [block.code for block in BLOCKS if block.module == module]
        (folder / f"{module}.py").write_text("\n\n".join(parts), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        for module in modules:  # others have imported theirs of these names
            patch.delitem(sys.modules, module, raising=False)
        yield folder
        for module in modules:
            sys.modules.pop(module, None)


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_compiles_and_imports_what_exists(block: Block, folder: Path) -> None:
    block.compiled()

    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@pytest.fixture(scope="module")
def frontend(folder: Path) -> Iterator[str]:
    """The address of a dispatcher with a worker for the guide's app."""
    with real_up(folder, "tasks.py") as address:
        yield address


def expectations(code: str) -> dict[int, str]:
    """Return by line what the comments behind `print(...)` say is printed."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {
        token.start[0]: token.string.removeprefix("# ")
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("print(")
    }


@pytest.mark.parametrize("block", PROGRAMS, ids=named)
def test_a_program_of_the_guide_prints_what_it_says(
    block: Block, frontend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: dict[int, str] = {}

    def note(*values: object) -> None:
        printed[sys._getframe(1).f_lineno] = " ".join(map(str, values))

    monkeypatch.setattr(shunter.client.addresses, "DEFAULT_ADDRESS", frontend)
    program = block.compiled(block.code.replace(DEFAULT_FRONTEND, frontend))
    exec(program, {"__name__": "__main__", "print": note})

    assert printed == expectations(block.code)
