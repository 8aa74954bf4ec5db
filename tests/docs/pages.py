"""The programs in a page of the docs, and what they say they print."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path
from typing import Any, NamedTuple

_FENCE = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>\w+\.py)\n")


class Block(NamedTuple):
    """A block of Python; one that begins with a comment such as `# states.py` is a file."""

    page: Path
    line: int
    code: str

    @property
    def file(self) -> str | None:
        found = _FILE.match(self.code)
        return found["name"] if found else None


def blocks_in(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["code"])
        for found in _FENCE.finditer(text)
    ]


def printed_by(block: Block, names: dict[str, Any]) -> list[str]:
    """Run a program with these names, which it adds to, and return what it prints."""
    printed: list[str] = []

    def note(*values: object) -> None:
        printed.append(" ".join(map(str, values)))

    names |= {"__name__": "__main__", "print": note}
    exec(compile("\n" * block.line + block.code, str(block.page), "exec"), names)
    return printed


def expectations(code: str) -> list[str]:
    """Return the comments behind each `print`."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [
        token.string.removeprefix("# ")
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.startswith("print(")
    ]
