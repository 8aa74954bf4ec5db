"""What a context offers of its run's journal, and how a run that is parked is told from others.

Loaded by every child process, so it loads little: the journal itself comes with its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from shunter.context import Parked
from shunter.model.park import Park

if TYPE_CHECKING:
    from shunter.wire.messages import Assignment
    from shunter.worker.pool.parent_line import ParentLine
    from shunter.worker.run_journal import RunJournal
    from shunter.worker.run_seal import RunSeal


class JournalMethods:
    """What a context offers of its run's journal."""

    __slots__ = ()

    @property
    def journal(self) -> RunJournal:
        """The run's journal, from its first use on."""
        raise NotImplementedError

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        on_change: str = "fail",
        **kwargs: Any,
    ) -> Any:
        return self.journal.step(name, function, args, kwargs, on_change)

    def sleep(self, name: str, seconds: float = 0.0, **units: float) -> Any:
        return self.journal.sleep(name, seconds, units)

    def wait(self, name: str, *, signal: str | None = None, timeout: float | None = None) -> Any:
        return self.journal.wait(name, signal, timeout)

    def gather(self, name: str, calls: Iterable[Any]) -> Any:
        return self.journal.gather(name, calls)

    def emit(self, chunk: Any) -> None:
        self.journal.emit(chunk)


def journal_of(line: ParentLine | None, key: int, job: Assignment, seal: RunSeal) -> RunJournal:
    """Return the journal of a run in a child process."""
    from shunter.worker.pool.first_runs import is_first_run
    from shunter.worker.run_journal import RunJournal

    assert line is not None, "this child has no line to its parent"
    return RunJournal(
        job.job_id,
        job.attempt,
        seal,
        ask=lambda ask: line.ask(key, ask),
        post=lambda ask: line.post(key, ask),
        run=job.run,
        is_new=is_first_run(key),
        ask_soon=lambda ask: line.ask_soon(key, ask),
    )


def park_in(error: BaseException) -> Park | None:
    """Return what a run is parked on, if that is all that it ended with."""
    if isinstance(error, Parked):
        park: Park = error.park
        return park
    if isinstance(error, BaseExceptionGroup):
        from asyncio import CancelledError

        matching, rest = error.split(lambda each: isinstance(each, Parked | CancelledError))
        if rest is None and matching is not None:
            parked = (park_in(each) for each in matching.exceptions)
            return next((park for park in parked if park is not None), None)
    return None
