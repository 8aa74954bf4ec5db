"""Schedules that apps declare: they reach the store when a worker registers that has the app.

Of two workers that declare one schedule differently, the one that was started later counts, and
both are told. What a client has put is left alone, and so is what no app declares any more:
removing is for people. Spec: docs/spec/schedules.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.schedule_records import change_schedule, record_name
from shunter.dispatch.tick_sweep import Tell
from shunter.dispatch.timetable import Timetable
from shunter.model.schedule import Declaration, Schedule, ScheduleTerms, declared
from shunter.model.timing import Cron
from shunter.model.worker import Handler

NAMESPACE = ""
"""Workers have no namespace, and neither has what they declare."""

MOST_TOLD = 10_000


class Declarations:
    """Takes over what workers declare. `tell` hears what people should know, once."""

    def __init__(self, dispatcher: Dispatcher, timetable: Timetable, *, tell: Tell) -> None:
        self._dispatcher, self._timetable, self._tell = dispatcher, timetable, tell
        self._told: set[tuple[str, str]] = set()
        self._pending: dict[str, tuple[Handler, ...]] = {}

    @property
    def is_due(self) -> bool:
        """True if a sweep would do anything."""
        return bool(self._pending) or self._dispatcher.has_registered

    async def sweep(self) -> None:
        """Take over what workers declare that came since the last sweep."""
        self._pending |= self._dispatcher.take_registered()
        while self._pending:
            worker_id, handlers = next(iter(self._pending.items()))
            for note in await self.declare(worker_id, handlers):
                self._dispatcher.tell_worker(worker_id, note)
            del self._pending[worker_id]

    async def declare(self, worker_id: str, handlers: Sequence[Handler]) -> list[str]:
        """Take over what one worker declares; return what it is to be told."""
        notes: list[str] = []
        for handler in handlers:
            if handler.schedule is None:
                self._miss(worker_id, handler.type)
                continue
            declaration = Declaration(
                type=handler.type,
                terms=handler.schedule.terms,
                payload=handler.schedule.payload,
                worker_id=worker_id,
                started=_known_start(handler.schedule.started, self._dispatcher.now()),
            )
            if (note := await self._declare(declaration)) is not None:
                notes.append(note)
        return notes

    async def _declare(self, declaration: Declaration) -> str | None:
        """Take one over; return what is to be said about it."""
        now, found = self._dispatcher.now(), dict[str, Schedule]()

        def taken_over(known: Schedule | None) -> Schedule:
            found.clear()
            if known is not None:
                found[known.name] = known
            return declared(known, declaration, now=now)

        name, terms = declaration.type, declaration.terms
        try:
            await change_schedule(self._dispatcher.store, NAMESPACE, name, taken_over)
        except ValueError as error:  # a zone that this host does not know
            return f"schedule {name!r} can't be kept here: {error}"
        known = found.get(name)
        if known is None or known.terms == terms:
            return None
        if known.declared is None:
            return self._say(
                name,
                declaration.worker_id,
                f"schedule {name!r} was put by a client as {shown(known.terms)}, which counts, and "
                f"not what the app of worker {declaration.worker_id} declares, {shown(terms)}; "
                f"let the app decide with `shunter schedule rm {name}`",
            )
        is_newer = declaration.started > known.declared
        winner, loser = (
            (declaration.worker_id, known.declared_by)
            if is_newer
            else (known.declared_by, declaration.worker_id)
        )
        counts, other = (terms, known.terms) if is_newer else (known.terms, terms)
        text = (
            f"schedule {name!r} is declared as {shown(counts)} by worker {winner}, which was "
            f"started last and counts, and as {shown(other)} by worker {loser}; "
            "give all workers the same version of the app"
        )
        self._dispatcher.tell_worker(known.declared_by, text)
        return self._say(name, declaration.worker_id, text)

    def _miss(self, worker_id: str, job_type: str) -> None:
        """Say that an app does not declare a schedule any more."""
        entry = self._timetable.get(record_name(NAMESPACE, job_type))
        if entry is not None and entry.is_declared:
            self._say(
                job_type,
                worker_id,
                f"schedule {job_type!r} goes on, though the app of worker {worker_id} does not "
                f"declare it any more; remove it with `shunter schedule rm {job_type}`",
            )

    def _say(self, name: str, worker_id: str, text: str) -> str:
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        if (name, text) not in self._told:
            self._told.add((name, text))
            self._tell(name, text)
        return text


def _known_start(started: float, now: float) -> float:
    """Return when a worker began: nobody begins in the future, to be the newest for ever."""
    return started if 0 <= started <= now else now if started > now else 0.0


def shown(terms: ScheduleTerms) -> str:
    """Write terms for people."""
    timing = terms.timing
    text = (
        f"{timing.text!r} in {timing.tz}"
        if isinstance(timing, Cron)
        else f"every {timing.seconds:g} s"
    )
    extras = [f"overlap {terms.overlap}", f"catch-up {terms.catch_up:g} s"]
    if terms.jitter:
        extras.append(f"jitter {terms.jitter:g} s")
    return f"{text} ({', '.join(extras)})"
