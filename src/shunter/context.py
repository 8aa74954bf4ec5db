"""What a handler can know about its run, and ask of it.

A parameter annotated with `Context` receives it. The worker's child process and
`shunter.testing` each have their own; a handler sees no difference.
"""

from __future__ import annotations

from typing import Protocol


class Context(Protocol):
    """The run that a handler is in."""

    @property
    def job_id(self) -> str: ...

    @property
    def run_id(self) -> str:
        """The run that the job belongs to, or else the job's own id."""
        ...

    @property
    def attempt(self) -> int:
        """1 for the first start of the job; a job may start again, from scratch."""
        ...

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the handler has come; cheap enough for every step of a loop."""
        ...

    def cancelled(self) -> bool:
        """Tell whether somebody wants this run stopped.

        A handler that then returns has completed; one that then raises has been cancelled.
        """
        ...


class Terminated(BaseException):
    """Raised inside a handler that went on after it was asked to stop.

    It gives `finally` blocks their chance. Who stays on regardless is killed.
    """
