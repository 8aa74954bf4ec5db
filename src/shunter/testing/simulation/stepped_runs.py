"""A run with steps in a simulated child: the journal of a real one, driven in virtual time.

The child goes on while its parent is frozen, but its asks are only heard by one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from shunter.app import App
from shunter.context import Parked
from shunter.errors import StepError
from shunter.model.job import ErrorKind, Failure
from shunter.model.park import encode_park
from shunter.testing.simulation.witness import Run, Witness
from shunter.wire.messages import Assignment
from shunter.worker.asks import JournalAnswer, JournalAsk, KeepAsk, RunAsk
from shunter.worker.run_journal import FunctionCall, Operation, RunJournal
from shunter.worker.run_seal import RunSeal

SIGNAL = "go"

Ended = Callable[[bytes | None, Failure | None], None]


class SteppedRun:
    """One run: a number of steps of a given length each, a sleep and a wait between them."""

    def __init__(
        self,
        app: App,
        job: Assignment,
        run: Run,
        witness: Witness,
        *,
        steps: int,
        seconds: float,
        nap: float,
        waits: bool,
        dies: bool,
        is_new: bool,
        later: Callable[..., Any],
        ask: Callable[[RunAsk], None],
        on_end: Ended,
    ) -> None:
        self._run, self._witness, self._seconds, self._dies = run, witness, seconds, dies
        self._later, self._ask, self._on_end = later, ask, on_end
        self._last = 0
        self._asked: JournalAsk | None = None
        journal = RunJournal(
            job.job_id,
            job.attempt,
            RunSeal(app, job.job_id, job.type),
            ask=lambda ask: Future[JournalAnswer](),
            post=lambda ask: None,
            is_new=is_new,
        )
        self._script = _script(journal, steps, nap, waits=waits)

    def begin(self) -> None:
        self._go(lambda: next(self._script))

    def answered(self, number: int, answer: JournalAnswer) -> None:
        """Hear the answer to an ask; an old one again means nothing."""
        if number != self._last or self._asked is None:
            return
        asked, self._asked = self._asked, None
        if isinstance(asked, KeepAsk) and answer.is_kept:
            self._witness.step_kept(self._run, asked.key)
        self._go(lambda: self._script.send(answer))

    def _go(self, advance: Callable[[], JournalAsk | FunctionCall]) -> None:
        try:
            wanted = advance()
        except StopIteration:
            self._on_end(b"", None)
        except Parked as parked:
            self._on_end(encode_park(parked.park), Failure(ErrorKind.PARKED, "parked"))
        except StepError as error:
            self._on_end(None, Failure(ErrorKind.EXCEPTION, str(error)))
        else:
            if isinstance(wanted, FunctionCall):
                self._later(self._seconds, self._work, wanted)
            else:
                self._last += 1
                self._asked = wanted
                self._ask(RunAsk(self._last, wanted))

    def _work(self, call: FunctionCall) -> None:
        """Have the effect of a step; a run that is to die does so before it is kept."""
        (name,) = call.args
        self._witness.step_ran(self._run, name)
        if self._dies:
            self._on_end(None, Failure(ErrorKind.LOST, "its process died in a step"))
        else:
            self._go(lambda: self._script.send(name))


def _script(
    journal: RunJournal, steps: int, nap: float, *, waits: bool
) -> Generator[JournalAsk | FunctionCall, Any, None]:
    def operations() -> Operation[None]:
        for number in range(steps):
            name = f"step {number}"
            yield from journal.stepping(name, str, (name,), {}, "fail")
            if number == 0 and nap:
                yield from journal.sleeping("nap", nap)
            if number == 1 and waits:
                yield from journal.waiting("until told", SIGNAL, None)

    return operations()
