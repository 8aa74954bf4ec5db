"""What a handler can know about its run, and ask of it.

A parameter annotated with `Context` receives it. The worker's child process and
`shunter.testing` each have their own; a handler sees no difference. What handlers call can ask
for it here, so that it need not be passed through everything in between.
"""

from __future__ import annotations

from contextvars import Context as Variables
from contextvars import ContextVar, Token
from typing import Protocol

from shunter.errors import AppError
from shunter.model.limits import MAX_SECONDS


class Context(Protocol):
    """The run that a handler is in."""

    @property
    def job_id(self) -> str:
        """The id of the job that runs."""
        ...

    @property
    def job_type(self) -> str:
        """The type of the job that runs."""
        ...

    @property
    def run_id(self) -> str:
        """The run that the job belongs to, or else the job's own id."""
        ...

    @property
    def attempt(self) -> int:
        """1 for the first start of the job; a job may start again, from scratch."""
        ...

    @property
    def scheduled(self) -> float | None:
        """The tick of the schedule that made the job, in seconds since 1970; None without one.

        A run that is late, or is made up for, has the time that it should have had.
        """
        ...

    @property
    def traceparent(self) -> str | None:
        """The span that the job was submitted in, as W3C's Trace Context writes it, if any."""
        ...

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the handler has come; cheap enough for every step of a loop.

        `note` is shown with it; of one longer than 8 KiB the end is left out.
        """
        ...

    def cancelled(self) -> bool:
        """True if somebody wants this run stopped.

        A handler that then returns has completed; one that then raises has been cancelled.
        """
        ...


class Terminated(BaseException):
    """Raised inside a handler that went on after it was asked to stop.

    It gives `finally` blocks their chance. Who stays on regardless is killed.
    """


class Fail(Exception):
    """Raise it to fail the job at once, whatever retries are left: `raise Fail("why")`."""


class Snooze(Exception):
    """Raise it to have the job run again in so many seconds: `raise Snooze(60)`.

    It is no failure and uses up no retry; the run's log is kept. A job may be put off 1,000 times.
    """

    def __init__(self, seconds: float, why: str = "") -> None:
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds <= MAX_SECONDS:
            raise AppError(
                f"Snooze: found {seconds!r}; give seconds, a number from 0 to {MAX_SECONDS:.0f}"
            )
        super().__init__(f"put off for {seconds:g} s" + (f": {why}" if why else ""))
        self.seconds, self.why = float(seconds), why


_current: ContextVar[Context | None] = ContextVar("shunter_context", default=None)


def current_context() -> Context | None:
    """Return the context of the handler that runs here, or None outside of one.

    Coroutines, tasks and `asyncio.to_thread` inherit it; a thread that a handler starts does not.
    """
    return _current.get()


def context_in(variables: Variables) -> Context | None:
    """Return the context of the handler that these variables belong to, or None."""
    return variables.get(_current)


def enter_context(context: Context) -> Token[Context | None]:
    """Let `current_context` return this one; for whoever is about to call a handler."""
    return _current.set(context)


def leave_context(token: Token[Context | None]) -> None:
    """Undo `enter_context`."""
    _current.reset(token)
