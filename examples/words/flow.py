"""Counts the words of Shunter's own docs, as collections.Counter would, on any number of engines.

    shunter flow run examples/words/flow.py
    shunter flow run --on engines --engines 2 examples/words/flow.py

Lines are split wherever there is most room; each word is counted in one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shunter import Flow
from shunter.flow.sinks import WriteCsv

DOCS = Path(__file__).parents[2] / "docs"


def lines() -> Iterator[str]:
    for page in sorted(DOCS.glob("*.md")):
        yield from page.read_text(encoding="utf-8").splitlines()


def words(line: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", line.lower())


def itself(word: str) -> str:
    return word


class Count:
    """One word. It says how often it came once there is nothing more to come."""

    def __init__(self, word: str) -> None:
        self.word, self.times = word, 0

    def on_event(self, _: str) -> None:
        self.times += 1

    def on_instruction(self, instruction: Any) -> dict[str, Any] | None:
        if instruction.name == "end of stream":
            return {"word": self.word, "times": self.times}
        return None


flow = Flow("words")
all_words = flow.source(lines).balanced().flat_map(words)
counts = all_words.key_by(itself).stateful(Count, any_order=True, name="count")
counts.sink(WriteCsv("words.csv", columns=["word", "times"]), name="counts", workers=1)
