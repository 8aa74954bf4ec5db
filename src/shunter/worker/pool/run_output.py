"""What runs print that share a child process: each run's own, however they take turns.

Standard output and error become routers, which look whose turn it is. What comes from no run, or
past Python (from a program that a handler starts), goes where it went before.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any, TextIO, cast

from shunter.model.job_log import end_of_log
from shunter.model.journal import LiveLog


class RunOutput:
    """The text of one run. Of a long one, the beginning and the end are kept, `limit` in all."""

    __slots__ = ("_half", "_head", "_left_out", "_size", "_tail", "printed")

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head: list[str] = []
        self._tail: list[str] = []
        self._size = 0
        self._left_out = 0
        self.printed = 0
        """How many bytes were written."""

    def write(self, text: str) -> None:
        if text.isascii():
            self.printed += len(text)
        else:
            raw = text.encode(errors="backslashreplace")  # as streams do in other children
            text = raw.decode()
            self.printed += len(raw)
        if self._size < self._half:
            self._head.append(text)
        else:
            self._tail.append(text)
        self._size += len(text)
        if self._size > 8 * self._half:
            self._cut()

    def text(self) -> str:
        """Return what was written."""
        if not self._size:
            return ""
        if self._left_out or self._size > 2 * self._half:
            self._cut()
        note = f"\n[... {self._left_out} characters left out ...]\n" if self._left_out else ""
        return "".join((*self._head, note, *self._tail))

    def peek(self, most: int) -> LiveLog:
        """Return the end of the text, at most `most` bytes of it, while others may write."""
        printed = self.printed
        parts = self._tail if self._left_out else self._head + self._tail
        raw = "".join(parts)[-most:].encode()
        return end_of_log(raw, printed=printed, most=most)

    def _cut(self) -> None:
        head, tail = "".join(self._head), "".join(self._tail)
        beyond = head[self._half :]
        rest = beyond + tail
        kept = rest[-self._half :]
        self._left_out += len(rest) - len(kept)
        self._head, self._tail = [head[: self._half]], [kept]
        self._size = len(self._head[0]) + len(kept)


output_of_run: ContextVar[RunOutput | None] = ContextVar("shunter_run_output", default=None)


class OutputRouter:
    """Stands in for a stream, and passes on what is written to whom it belongs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        output = output_of_run.get()
        if output is None:
            return self._stream.write(text)
        output.write(str(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def route_output() -> None:
    """Have each run's output kept apart, from now on."""
    sys.stdout = cast(TextIO, OutputRouter(sys.stdout))
    sys.stderr = cast(TextIO, OutputRouter(sys.stderr))
