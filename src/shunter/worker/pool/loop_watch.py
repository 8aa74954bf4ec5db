"""A thread that sees when a handler keeps an event loop from all others, and where.

It asks the loop for a sign of life from time to time. Where none comes, it looks at what the
loop's thread is doing: which run that is, and on which line. Must not touch the loop otherwise.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
import traceback
from asyncio.events import Handle
from collections.abc import Callable
from time import monotonic, sleep
from types import FrameType

from msgspec import Struct

from shunter.context import Context, context_in

NOTICE_SECONDS = 0.5
"""A step of a handler that takes longer is noticed."""

_LIBRARIES = tuple(
    path for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_path(name))
)  # fmt: skip
_STEP = Handle._run.__code__


class BlockingStep(Struct, frozen=True):
    """What a loop is busy with: a handler's line, and how it got there."""

    run: Context | None
    since: float
    place: str
    stack: str


class LoopWatch:
    """Watches one loop, which runs in the thread that makes this, while `is_busy` is set."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_blocked: Callable[[BlockingStep], None],
        on_freed: Callable[[], None],
        notice: float = NOTICE_SECONDS,
    ) -> None:
        self._loop, self._thread_id = loop, threading.get_ident()
        self._on_blocked, self._on_freed, self._notice = on_blocked, on_freed, notice
        self._answered = threading.Event()
        self.is_busy = threading.Event()
        threading.Thread(target=self._watch, name="shunter-loop-watch", daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.is_busy.wait()
            asked_at = monotonic()
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                return  # the loop is closed
            if self._answered.wait(self._notice) or not self.is_busy.is_set():
                self._answered.wait()
                sleep(self._notice)
                continue
            self._on_blocked(self._look(asked_at))
            self._answered.wait()
            self._on_freed()

    def _look(self, since: float) -> BlockingStep:
        frame = sys._current_frames().get(self._thread_id)
        stack = _frames_of_step(frame)
        listed = traceback.StackSummary.extract((each, each.f_lineno) for each in reversed(stack))
        return BlockingStep(run_of(frame), since, _place(stack), "".join(listed.format()))


def run_of(frame: FrameType | None) -> Context | None:
    """Return the run in whose turn a frame of the loop's thread is, also in a task of its own."""
    if frame is not None and frame.f_code is _STEP:
        return None
    while frame is not None:
        if frame.f_code is _STEP:
            return context_in(frame.f_locals["self"]._context)
        frame = frame.f_back
    return None


def _frames_of_step(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of the step that is under way, the innermost first."""
    frames: list[FrameType] = []
    while frame is not None and frame.f_code is not _STEP:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _place(stack: list[FrameType]) -> str:
    """Name the innermost line that is not a library's."""
    own = [each for each in stack if not each.f_code.co_filename.startswith(_LIBRARIES)]
    for frame in (own or stack)[:1]:
        return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return "an unknown place"
