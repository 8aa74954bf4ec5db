"""The signals with which the parent stops a run, on the child's side.

SIGUSR1 says: look at the shared state, somebody wants the run stopped. SIGTERM ends the handler by
raising `Terminated` in it. Both count only for the run that the shared state names, so one that
comes late, or from a stranger, does nothing; and both count once, though they are repeated.
SIGINT is the parent's business.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

from shunter.context import Terminated
from shunter.worker.pool.run_state import SharedRunState


class Interrupts:
    """Whether the handler may be interrupted, and how.

    `armed` is true only while a handler runs, and falls before anything is raised: an outcome
    that is being written is never cut in two. `cancel` and `terminate` are set while a
    coroutine can be reached; `terminate` tells whether raising here and now would reach it.
    `run_of` is set where several runs share the loop, and names the run that a frame belongs to.
    """

    def __init__(self, run_state: SharedRunState) -> None:
        self._run_state = run_state
        self.armed = False
        self.cancel: Callable[[], None] | None = None
        self.terminate: Callable[[], bool] | None = None
        self.run_of: Callable[[FrameType | None], int] | None = None

    def install(self) -> None:
        signal.signal(signal.SIGUSR1, self._asked)
        signal.siginterrupt(signal.SIGUSR1, False)
        signal.signal(signal.SIGTERM, self._told)
        signal.signal(signal.SIGINT, _ignore)

    def is_asked(self) -> bool:
        return self._run_state.is_asked_to_stop

    def _asked(self, _signal: int, _frame: FrameType | None) -> None:
        if self.armed and self.cancel is not None and self._run_state.is_asked_to_stop:
            cancel, self.cancel = self.cancel, None
            cancel()

    def _told(self, _signal: int, _frame: FrameType | None) -> None:
        if not self.armed and self.run_of is not None:
            self._free_loop(_frame)
        if not self.armed or not self._run_state.is_asked_to_stop:
            return
        self.armed = False
        if self.terminate is None or self.terminate():
            raise Terminated("told to stop by SIGTERM")

    def _free_loop(self, frame: FrameType | None) -> None:
        """End the step of a run that keeps the loop from all others, if it is the one meant."""
        assert self.run_of is not None
        wanted = self._run_state.key_to_stop
        if wanted and self.run_of(frame) == wanted:
            self._run_state.ask_to_stop(0)
            raise Terminated("told to stop by SIGTERM")


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """Unlike SIG_IGN, this is not passed on to programs that a handler starts."""
