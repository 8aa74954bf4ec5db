"""What a handler can know about its run, and ask of it.

A parameter annotated with `Context` receives it. The worker's child process and
`shunter.testing` each have their own; a handler sees no difference. What handlers call can ask
for it here, so that it need not be passed through everything in between.
"""

from __future__ import annotations

from contextvars import Context as Variables
from contextvars import ContextVar, Token
from typing import Any, NoReturn, Protocol

from shunter.errors import AppError
from shunter.model.limits import MAX_SECONDS
from shunter.model.parents import Parents


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

    @property
    def parents(self) -> Parents:
        """The jobs that this one waited for, by id, with their results."""
        ...

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the handler has come; cheap enough for every step of a loop.

        `note` is shown with it; of one longer than 8 KiB the end is left out.
        """
        ...

    def step(
        self, name: str, function: Any, /, *args: Any, on_change: str = "fail", **kwargs: Any
    ) -> Any:
        """Call `function` and keep its result under `name`; a repeated run gets the kept one.

        When this returns, the result is committed. In an `async def` handler it is awaited, whether
        `function` is one or not. If the arguments are others than those of the kept result it
        raises StepRefused, or calls again with `on_change="rerun"`.
        """
        ...

    def sleep(self, name: str, seconds: float = 0.0, **units: float) -> Any:
        """Go on after this time: seconds, minutes=, hours=, days=.

        The job is parked: it holds no slot, its handler ends here, and is called again from the
        start when the time has come; kept steps give their results. Awaited in `async def`.
        """
        ...

    def wait(self, name: str, *, signal: str | None = None, timeout: float | None = None) -> Any:
        """Return the value of a signal, for which the job is parked if it has not come yet.

        The signal is called as the step, unless `signal` says otherwise. Raises SignalTimeout after
        `timeout` seconds. Awaited in `async def`.
        """
        ...

    def gather(self, name: str, calls: Any) -> Any:
        """Submit jobs, each a tuple of its type and arguments, and return their results in order.

        The job is parked until all have ended; ChildFailed is raised if one did not complete. A
        repeated run finds the same jobs. Awaited in `async def`.
        """
        ...

    def emit(self, chunk: Any) -> None:
        """Add a value to the job's stream, for whoever reads `handle.stream()`; never awaited."""
        ...

    def cancelled(self) -> bool:
        """True if somebody wants this run stopped.

        A handler that then returns has completed; one that then raises has been cancelled.
        """
        ...


class _Provided:
    def __repr__(self) -> str:
        return "PROVIDED"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AppError(
            f"{name!r} is wanted of a parameter that only a worker or a Sandbox fills in; pass it "
            "where you call the function yourself"
        )


PROVIDED: Any = _Provided()
"""Marks a parameter that nobody passes: `def handler(n: int, db: Database = PROVIDED)`.

Workers fill parameters in by their annotations alone; with this default, type checkers, too, know
that they can be left out of a submission.
"""


class Terminated(BaseException):
    """Raised inside a handler that went on after it was asked to stop.

    It gives `finally` blocks their chance. Who stays on regardless is killed.
    """


class Fail(Exception):
    """Raise it to fail the job at once, whatever retries are left: `raise Fail("why")`."""


class Snooze(Exception):
    """Raise it to have the job run again in this many seconds: `raise Snooze(60)`.

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


class Parked(BaseException):
    """Raised by `Context.sleep`, `wait` and `gather` to end a run that is to go on later.

    It is for Shunter to catch: let it pass. `finally` blocks run, and must bear that.
    """

    def __init__(self, park: Any) -> None:
        super().__init__(f"parked {park.text}")
        self.park = park


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
