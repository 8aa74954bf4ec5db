"""How ticks become jobs: any dispatcher looks, reads, decides, inserts, and then moves on.

A schedule that is due is read from the store, and what becomes of its ticks is decided on that
(`model/schedule.py`). Their jobs are submitted like any others; only once they are committed is
the schedule written with its next tick, by compare-and-swap. So nothing is held by anybody: a
dispatcher that dies anywhere in between leaves a tick that the next one inserts again, under the
same unique key. Which schedules are due is known without asking (`timetable.py`).
Spec: docs/spec/schedules.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import msgspec
from msgspec import Struct

from shunter.dispatch.arrivals import Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.schedule_records import (
    ScheduleDial,
    find_records,
    read_edition,
    record_of,
    schedule_in,
)
from shunter.dispatch.timetable import (
    ELSEWHERE_SECONDS,
    Timetable,
    TimetableEntry,
    is_first_in_line,
)
from shunter.errors import StoreError, UniqueKeyTaken
from shunter.model.job import Job
from shunter.model.record import Record, RecordKind
from shunter.model.schedule import (
    MOST_TICKS,
    NOTHING,
    Overlap,
    Schedule,
    TickDecision,
    decide,
    due,
    inserted,
    may_have_unknown_jobs,
    refusal_in,
    tick_job,
    tick_prefix,
)
from shunter.model.submission import Receipt, Submission
from shunter.store.search import JobSearch

LOOK_SECONDS = 1.0
"""How often a dispatcher looks whether schedules were changed."""

READ_ALL_SECONDS = 300.0
"""How often it reads all of them, in case that a change was not announced."""

READ_AT_ONCE = 500
DUE_AT_ONCE = 256
TICKS_AT_ONCE = 1000
JOBS_AT_ONCE = 8
"""Jobs come with their results, which may be large."""

AGAIN_SECONDS = 1.0
"""How soon it looks again whether a job that a tick waits for has ended."""

UNREADABLE_SECONDS = 60.0

Tell = Callable[[str, str], None]
"""Hears the name of a schedule, and what is to be said about it."""


class _Due(Struct):
    """A schedule that is being decided on, with the revision of its record."""

    name: str
    revision: int
    decision: TickDecision


class _Move(Struct):
    """A schedule that is to be written as it is here, after this revision."""

    name: str
    revision: int
    schedule: Schedule


class TickSweep:
    """One dispatcher's look at schedules. `tell` hears what people should know."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        new_id: Callable[[], str],
        tell: Tell = lambda name, text: None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self.timetable = Timetable()
        self._dispatcher, self._store = dispatcher, dispatcher.store
        self._new_id, self._tell = new_id, tell
        self._look_seconds = look_seconds
        self._edition = 0
        self._looked_at = self._read_all_at = float("-inf")
        self._moves: list[_Move] = []

    @property
    def is_due(self) -> bool:
        """True if a sweep would do anything."""
        now, next_look = self._dispatcher.now(), self.timetable.next_look
        return (
            bool(self._moves)
            or now - self._looked_at >= self._look_seconds
            or (next_look is not None and next_look <= now)
        )

    async def sweep(self) -> None:
        """Write schedules whose ticks are jobs by now, and make jobs of ticks that have come."""
        now = self._dispatcher.now()
        if now - self._looked_at >= self._look_seconds:
            await self._follow(now)
            self._looked_at = now
        await self._move_on()
        await self._tick()
        self._dispatcher.schedules_known = len(self.timetable)

    # ---- which schedules there are

    async def _follow(self, now: float) -> None:
        """Read what was changed since the last look, or all."""
        edition = await read_edition(self._store)
        changed = edition.since(self._edition)
        if changed is None or now - self._read_all_at >= READ_ALL_SECONDS:
            await self._read_all()
            self._read_all_at = now
        elif changed:
            found = await find_records(self._store, changed)
            for name in changed:
                if name in found:
                    self._enter(found[name])
                else:
                    self.timetable.forget(name)
        self._edition = edition.number

    async def _read_all(self) -> None:
        seen: set[str] = set()
        before: str | None = None
        while True:
            page = await self._store.records(RecordKind.SCHEDULE, before=before, limit=READ_AT_ONCE)
            for record in page:
                seen.add(record.name)
                self._enter(record)
            if len(page) < READ_AT_ONCE:
                break
            before = page[-1].name
        for name in [it for it in self.timetable if it not in seen]:
            if not self.timetable.is_in_hand(name):
                self.timetable.forget(name)

    def _enter(self, record: Record) -> None:
        """Take a schedule as it is stored; what is in hand is taken when it is written."""
        if self.timetable.is_in_hand(record.name):
            return
        now = self._dispatcher.now()
        try:
            dial = msgspec.json.decode(record.document or b"", type=ScheduleDial)
        except (msgspec.MsgspecError, ValueError):
            look_at: float | None = now  # which says what is wrong with it
            is_declared = False
        else:
            look_at, is_declared = dial.look_at(now=now), dial.declared is not None
        self.timetable.enter(record.name, TimetableEntry(record.revision, look_at, is_declared))

    # ---- ticks

    async def _tick(self) -> None:
        now = self._dispatcher.now()
        if self._dispatcher.is_full:
            return
        taken = self.timetable.take_due(now=now, limit=DUE_AT_ONCE)
        names = [name for name in taken if not self._is_left_to_another(name, now)]
        if not names:
            return
        try:
            found = await find_records(self._store, names)
            schedules = self._read(names, found, now)
            unknown = await self._unknown(schedules, now)
            ended = await self._ended([it for _, it in schedules.values()])
        except StoreError:
            for name in names:
                self.timetable.look_again(name, now)
            raise
        self._carry_out(list(self._decided(schedules, ended, unknown, now)))
        await self._move_on()

    def _decided(
        self,
        schedules: Mapping[str, tuple[int, Schedule]],
        ended: Set[str],
        unknown: Mapping[str, Mapping[float, str]],
        now: float,
    ) -> Iterator[_Due]:
        """Yield what is to be done; of what stays as it is, only the next look is noted."""
        room = TICKS_AT_ONCE
        for name, (revision, schedule) in schedules.items():
            unfinished = set(schedule.unfinished) - ended
            most = max(1, min(MOST_TICKS, room))
            try:
                decision = decide(
                    schedule,
                    unfinished=unfinished,
                    now=now,
                    most=most,
                    unknown=unknown.get(name, NOTHING),
                )
            except ValueError as error:  # a zone that this host does not know
                self._tell(name, f"its next tick is unknown here: {error}")
                self.timetable.look_again(name, now + UNREADABLE_SECONDS)
                continue
            if decision.schedule is schedule:
                self._note(name, revision, schedule, now)
                continue
            room -= len(decision.ticks)
            yield _Due(name, revision, decision)

    def _note(self, name: str, revision: int, schedule: Schedule, now: float) -> None:
        """Enter a schedule as it is stored."""
        look_at = due(schedule)
        if schedule.waiting is not None and not schedule.is_paused:
            again = now + AGAIN_SECONDS
            look_at = again if look_at is None else min(look_at, again)
        entry = TimetableEntry(revision, look_at, schedule.declared is not None)
        self.timetable.enter(name, entry)

    def _is_left_to_another(self, name: str, now: float) -> bool:
        """Leave a tick for a moment to the dispatcher that is first in line for it."""
        entry = self.timetable.get(name)
        assert entry is not None
        assert entry.look_at is not None
        others = self._dispatcher.state.others
        if entry.is_postponed or not others or is_first_in_line(name, self._dispatcher.id, others):
            return False
        later = entry.look_at + ELSEWHERE_SECONDS
        if later <= now:
            return False
        self.timetable.look_again(name, later, is_postponed=True)
        return True

    def _read(
        self, names: Sequence[str], found: dict[str, Record], now: float
    ) -> dict[str, tuple[int, Schedule]]:
        """Return what is stored under these names and can be read, with its revision."""
        schedules: dict[str, tuple[int, Schedule]] = {}
        for name in names:
            record = found.get(name)
            if record is None:
                self.timetable.forget(name)
                continue
            try:
                schedules[name] = (record.revision, schedule_in(record))
            except StoreError as error:
                self._tell(name, str(error))
                self.timetable.look_again(name, now + UNREADABLE_SECONDS)
        return schedules

    async def _unknown(
        self, schedules: Mapping[str, tuple[int, Schedule]], now: float
    ) -> dict[str, dict[float, str]]:
        """Return by name and tick the jobs that somebody made who died before moving on."""
        unknown: dict[str, dict[float, str]] = {}
        for name, (_, schedule) in schedules.items():
            if _may_have_unknown_jobs(schedule, now):
                prefix, namespace = tick_prefix(schedule.name), schedule.namespace
                seen = await self._store.search(
                    JobSearch(key_prefix=prefix, namespace=namespace, limit=MOST_TICKS)
                )
                unknown[name] = {
                    job.scheduled: job.id
                    for job in seen.jobs
                    if job.scheduled is not None and not job.status.is_final
                }
        return unknown

    async def _ended(self, schedules: Sequence[Schedule]) -> set[str]:
        """Return which of their jobs have ended, or are not there any more."""
        ids = [
            job_id
            for schedule in schedules
            if schedule.terms.overlap is not Overlap.ALL
            for job_id in schedule.unfinished
        ]
        ended: set[str] = set()
        for start in range(0, len(ids), JOBS_AT_ONCE):
            some = ids[start : start + JOBS_AT_ONCE]
            jobs = await self._store.get(some)
            ended.update(it for it, job in zip(some, jobs, strict=True) if _has_ended(job))
        return ended

    def _carry_out(self, decisions: Sequence[_Due]) -> None:
        """Cancel and submit; what has nothing to submit is written at once."""
        submissions: list[Submission] = []
        submitters: list[Submitter] = []
        made: list[_Due] = []
        for it in decisions:
            decision, counters = it.decision, self._dispatcher.counters
            counters["ticks_skipped"] += decision.skipped
            counters["ticks_missed"] += decision.missed
            if decision.cancelled:
                self._dispatcher.cancel(decision.cancelled, lambda _: None)
            if decision.ticks:
                made.append(it)
                schedule = decision.schedule
                submitter = Submitter(namespace=schedule.namespace)
                for tick in decision.ticks:
                    submissions.append(tick_job(schedule, tick, job_id=self._new_id()))
                    submitters.append(submitter)
            else:
                self._moves.append(_Move(it.name, it.revision, decision.schedule))
        if made:
            self._dispatcher.submit_for_many(
                submissions, submitters, lambda receipts: self._inserted(made, receipts)
            )

    def _inserted(self, made: Sequence[_Due], receipts: Sequence[Receipt]) -> None:
        """Go on with schedules whose ticks are committed: each is a job, or is refused for good."""
        answers = iter(receipts)
        for it in made:
            ids, error = list[str](), ""
            for receipt in [next(answers) for _ in it.decision.ticks]:
                if not receipt.reason:
                    ids.append(receipt.job_id)
                elif receipt.field in ("id", "unique_key"):  # made before the schedule was changed
                    ids += filter(None, [UniqueKeyTaken.holder_in(receipt.reason)])
                else:
                    error = f"{receipt.field}: {refusal_in(receipt)}"
            if error and error != it.decision.schedule.error:
                self._tell(it.name, f"its ticks can't be made jobs: {error}")
            self._dispatcher.counters["ticks_made"] += len(ids)
            schedule = inserted(it.decision, ids, error=error)
            self._moves.append(_Move(it.name, it.revision, schedule))

    async def _move_on(self) -> None:
        """Write schedules with their next ticks; who was not the first reads what is there."""
        moves, self._moves = self._moves, []
        if not moves:
            return
        now = self._dispatcher.now()
        try:
            swapped = await self._store.swap_records(
                [record_of(it.schedule, it.revision + 1) for it in moves]
            )
        except StoreError:
            self._moves = moves + self._moves
            raise
        for move, is_written in zip(moves, swapped, strict=True):
            if not is_written:
                self._dispatcher.counters["ticks_raced"] += 1
                self.timetable.look_again(move.name, now)
                continue
            self._note(move.name, move.revision + 1, move.schedule, now)


def _may_have_unknown_jobs(schedule: Schedule, now: float) -> bool:
    try:
        return may_have_unknown_jobs(schedule, now=now)
    except ValueError:  # a zone that this host does not know, of which the decision tells
        return False


def _has_ended(job: Job | None) -> bool:
    return job is None or job.status.is_final
