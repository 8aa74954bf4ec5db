"""Where commands print: text is taken literally, and what it holds can't steer the terminal.

Markup is off, for most of what is printed was written by others: `[red]` in a job's error is
shown as it stands. Colours of ours are styles, `Text("failed", style="red")` or `style="red"`.
"""

from __future__ import annotations

import json as standard_json
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.highlighter import JSONHighlighter
from rich.segment import Segment
from rich.text import Text

from shunter.shown_text import shown, shown_json


class Terminal(Console):
    """A console for text that others wrote."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Show control characters before the text is measured, so that tables keep their shape."""
        return super().render_str(shown(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Let nothing through that did not come as a string: a Text, or what a flow prints."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else _harmless(segment)

    def print_json(self, json: str | None = None, **options: Any) -> None:
        """Print a JSON document over several lines, control characters as JSON's own escapes."""
        value = options.get("data") if json is None else standard_json.loads(json)
        document = standard_json.dumps(value, indent=2, ensure_ascii=False)
        text = JSONHighlighter()(shown_json(document))
        text.no_wrap = True
        self.print(text, soft_wrap=True)

    def print_result(self, text: str) -> None:
        """Print a result: as it is into a pipe or a file, and harmless where somebody sees it."""
        if self.is_terminal or self.file.isatty():
            self.print(text, highlight=False, soft_wrap=True)
        else:
            self.file.write(f"{text}\n")


def json_line(value: object) -> str:
    """Write a value as JSON on one line, control characters as JSON's own escapes."""
    return shown_json(msgspec.json.encode(value).decode())


def _harmless(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link is not None:
        style = style.update_link(None)  # links are none of ours, and say another address
    return Segment(shown(segment.text), style)
