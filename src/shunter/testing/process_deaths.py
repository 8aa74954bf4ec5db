"""Deaths of the processes that run handlers, drawn from a seed, for `Sandbox(app, faults=seed)`.

A run dies before its handler begins, in front of any line of the handler's code, or when it is
done and has not reported yet: that is where handlers that are not re-runnable leave half of
something, or do it twice. Unlike a real kill, an exception passes through the handler, so its
`finally` and `except BaseException` blocks do run.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from shunter.model.job import Job

MOST_DEATHS = 3
"""A job is not killed more often, so that in the end it completes."""

MOST_LINES = 64
"""A run dies within so many lines of its handler, or else when it is done."""


class ProcessDied(BaseException):
    """The process that ran a handler was killed, there and then."""

    def __init__(self, where: str) -> None:
        super().__init__(f"the sandbox let its process die {where}")


class ProcessDeaths:
    """Decides which runs die, and where."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._deaths: Counter[str] = Counter()

    @contextmanager
    def around(self, job: Job, handler: Callable[..., Any]) -> Iterator[None]:
        """Run a handler inside this; raises ProcessDied where the run is to die."""
        is_spared = self._deaths[job.id] >= MOST_DEATHS or self._random.random() < 0.4
        if is_spared:
            yield
            return
        self._deaths[job.id] += 1
        lines_left = self._random.randrange(-1, MOST_LINES)
        if lines_left < 0:
            raise ProcessDied("before its handler began")
        path = handler.__code__.co_filename
        before = sys.gettrace()
        sys.settrace(_dying(path, lines_left))
        try:
            yield
        finally:
            sys.settrace(before)
        raise ProcessDied("when it was done, before it reported")


def _dying(path: str, lines: int) -> Callable[[FrameType, str, Any], Any]:
    """Return a trace function that raises in front of the line after so many of this file."""
    left = lines

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != path:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise ProcessDied(f"in front of line {frame.f_lineno} of {frame.f_code.co_name}")
        return trace

    return trace
