"""Events from text files: each line is one."""

from __future__ import annotations

from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.source_line import users_line
from shunter.flow.sources.files import Where
from shunter.flow.sources.line_source import LineSource
from shunter.flow.sources.port import WithBadInput


class TextLines(LineSource):
    """The lines of a file, of all files in a folder, of a pattern's files, or of several of these.

    A line becomes a text without its end; an empty one is an event too. One that can't be decoded
    is a bad event. Workers and `follow` are as with JsonLines.
    """

    def __init__(self, where: Where, *, encoding: str = "utf-8", follow: bool = False) -> None:
        super().__init__(where, follow=follow)
        self.event_type = str
        self._encoding = encoding
        try:
            is_fit = "\n".encode(encoding).endswith(b"\n") and "a\n".encode(encoding)[-2:] == b"a\n"
        except LookupError:
            is_fit = False
        if not is_fit:
            raise FlowError(
                f"TextLines(encoding={encoding!r}): lines can't be found in such a file; give an "
                "encoding with a byte for each letter of ASCII, such as utf-8 or latin-1",
                place=str(users_line()),
            )

    def _events_of(self, lines: list[bytes], offset: int) -> list[Any]:
        try:
            text = b"".join(lines).decode(self._encoding)
        except UnicodeDecodeError:
            return self._one_by_one(lines, offset)
        texts = text.removesuffix("\n").split("\n")
        return [each.removesuffix("\r") for each in texts] if "\r" in text else texts

    def _one_by_one(self, lines: list[bytes], offset: int) -> list[Any]:
        events = WithBadInput()
        for index, line in enumerate(lines):
            try:
                text = line.decode(self._encoding)
                events.append(text.removesuffix("\n").removesuffix("\r"))
            except UnicodeDecodeError as error:
                events.append(self._bad(offset, index, line, error))
        return events
