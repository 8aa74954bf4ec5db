"""Deaths of the processes that run handlers, drawn from a seed, for `Sandbox(app, faults=seed)`.

A run dies before its handler begins, in front of any line of the user's code in whatever file, or
when it is done and has not reported yet: that is where handlers that are not re-runnable leave half
of something, or do it twice. Unlike a real kill, an exception passes through the handler, so its
`finally` and `except BaseException` blocks do run.
"""

from __future__ import annotations

import random
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from shunter.model.job import Job

MOST_DEATHS = 3
"""A job is not killed more often, so that in the end it completes."""

FEW_LINES = 64
MOST_LINES = 10_000
"""Half of the deaths are drawn from the lines that another run of the type had in all, or from the
first few if none has shown it yet; half from all scales, for no two runs need be alike: the first,
the next dozens, hundreds or thousands. A run that has fewer lines dies when it is done."""

BEFORE = 0.05
"""The part of deaths that come before the handler begins."""


OTHERS_FOLDERS = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")},
    str(Path(__file__).parents[1]),
)
"""What lies in these is not the user's code."""


class ProcessDied(BaseException):
    """The process that ran a handler was killed, there and then."""

    def __init__(self, where: str) -> None:
        super().__init__(f"the sandbox let its process die {where}")


class ProcessDeaths:
    """Decides which runs die, and where."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._deaths: Counter[str] = Counter()
        self._lines: dict[str, int] = {}

    @contextmanager
    def around(self, job: Job, handler: Callable[..., Any]) -> Iterator[None]:
        """Run a handler inside this; raises ProcessDied where the run is to die."""
        is_spared = self._deaths[job.id] >= MOST_DEATHS or self._random.random() < 0.4
        if is_spared:
            yield
            return
        self._deaths[job.id] += 1
        if self._random.random() < BEFORE:
            raise ProcessDied("before its handler began")
        lines = self._drawn_line(self._lines.get(job.type))
        death = _Death(handler.__code__.co_filename, lines)
        before = sys.gettrace()
        sys.settrace(death.trace)
        try:
            yield
        finally:
            sys.settrace(before)
        self._lines[job.type] = lines - death.left  # to the end of the handler
        raise ProcessDied("when it was done, before it reported")

    def _drawn_line(self, known: int | None) -> int:
        """Return after how many lines to die; `known` is how many another run of the type had."""
        if self._random.random() < 0.5:
            return self._random.randrange(FEW_LINES if known is None else known + 1)
        return int(MOST_LINES ** self._random.random()) - 1


@cache
def _is_users(path: str) -> bool:
    """True if a file is neither Python's own, nor installed, nor ours."""
    file = Path(path)
    return not (
        path.startswith("<")
        or {"site-packages", "dist-packages"} & set(file.parts)
        or any(file.is_relative_to(folder) for folder in OTHERS_FOLDERS)
    )


class _Death:
    """Comes in front of a line of the user's, after so many.

    `path` is the handler's file, which is the user's wherever it is.
    """

    def __init__(self, path: str, lines: int) -> None:
        self._path, self.left = path, lines

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Follow a program; for `sys.settrace`."""
        file = frame.f_code.co_filename
        if file != self._path and not _is_users(file):
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                raise ProcessDied(f"in front of line {frame.f_lineno} of {frame.f_code.co_name}")
        return self.trace
