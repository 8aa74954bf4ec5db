"""What people and programs do with schedules: put, look, pause, resume, trigger, backfill, remove.

Each act is one read and one compare-and-swap, and may be repeated: requests are sent again when
an answer is lost. What is wrong is refused before anything is written. Who may do it, and how
jobs get to the dispatcher and back, is for gateways to know. Spec: docs/spec/schedules.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from shunter.dispatch.arrivals import NOBODY
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.intake import admit
from shunter.dispatch.schedule_records import (
    change_schedule,
    find_records,
    record_name,
    remove_schedule,
    schedule_in,
)
from shunter.errors import (
    JobRefused,
    ScheduleNotFound,
    ScheduleRefused,
    StoreError,
    UniqueKeyTaken,
)
from shunter.model.identity import NAME_RULE, is_name
from shunter.model.key import NAME_PATTERN as NAMESPACE_PATTERN
from shunter.model.key import NAME_RULE as NAMESPACE_RULE
from shunter.model.limits import moment_fault
from shunter.model.record import RecordKind
from shunter.model.schedule import (
    MOST_BACKFILLED,
    Overlap,
    Schedule,
    ScheduleDraft,
    draft_faults,
    paused,
    put,
    refusal_in,
    resumed,
    tick_job,
)
from shunter.model.scope import JobScope
from shunter.model.submission import Receipt, Submission
from shunter.model.timing import ticks_between

MAX_LISTED = 500
MAX_SCHEDULES = 100_000
MOST_UNFINISHED = 100
"""So many jobs that were made by hand are remembered as unfinished."""

Submit = Callable[[Sequence[Submission], str], Awaitable[Sequence[Receipt]]]
"""Takes jobs to the dispatcher in a namespace, and returns after their commit."""


class SchedulePage(Struct, frozen=True):
    """Some schedules, by falling names; `next` is the `before` of the next page."""

    schedules: tuple[Schedule, ...]
    next: str | None = None


class ScheduleBook:
    """The schedules of one store, for whoever sees what is in a scope."""

    def __init__(
        self, dispatcher: Dispatcher, *, new_id: Callable[[], str], submit: Submit
    ) -> None:
        self._dispatcher, self._store = dispatcher, dispatcher.store
        self._new_id, self._submit = new_id, submit

    async def listed(
        self,
        scope: JobScope,
        *,
        namespace: str | None = None,
        before: str | None = None,
        limit: int = MAX_LISTED,
    ) -> SchedulePage:
        """Return a page of schedules, without payloads; `before` is the last one already seen."""
        if not scope.covers(namespace):
            return SchedulePage(())
        wanted = scope.listed(namespace)
        limit = max(1, min(limit, MAX_LISTED))
        found: list[Schedule] = []
        last = before if before is not None else _end_of(wanted)
        while len(found) <= limit:
            page = await self._store.records(RecordKind.SCHEDULE, before=last, limit=limit + 1)
            for record in page:
                if wanted is not None and not record.name.startswith(f"{wanted}/"):
                    return _page(found, limit)
                try:
                    found.append(schedule_in(record))
                except StoreError:
                    continue  # one that can't be read hides no others
            if len(page) <= limit:
                break
            last = page[-1].name
        return _page(found, limit)

    async def found(self, scope: JobScope, name: str, namespace: str | None = None) -> Schedule:
        """Return one schedule, or raise ScheduleNotFound."""
        wanted = record_name(_namespace(scope, name, namespace), name)
        record = (await find_records(self._store, [wanted])).get(wanted)
        if record is None:
            raise ScheduleNotFound(name)
        return schedule_in(record)

    async def put(
        self, scope: JobScope, name: str, draft: ScheduleDraft, namespace: str | None = None
    ) -> Schedule:
        """Make or change a schedule, or raise ScheduleRefused."""
        for field, reason in draft_faults(name, draft):
            raise ScheduleRefused(name, field, reason)
        if namespace and not NAMESPACE_PATTERN.match(namespace):
            found = f"found {namespace[:64]!r}; send {NAMESPACE_RULE}"
            raise ScheduleRefused(name, "namespace", found)
        owner, now = _namespace(scope, name, namespace), self._dispatcher.now()
        self._check_job(name, draft.job, now)
        return await change_schedule(
            self._store,
            owner,
            name,
            lambda known: put(self._room(known, name), name, draft, namespace=owner, now=now),
        )

    def _room(self, known: Schedule | None, name: str) -> Schedule | None:
        """Refuse one more where there are as many as may be: dispatchers keep them in mind."""
        if known is None and self._dispatcher.schedules_known >= MAX_SCHEDULES:
            fact = f"there are {MAX_SCHEDULES:,} schedules, as many as may be"
            raise ScheduleRefused(name, "name", f"{fact}; remove some, or change one")
        return known

    def _check_job(self, name: str, job: Submission, now: float) -> None:
        """Refuse what would be refused at each tick: a payload, a callback."""
        rules = replace(self._dispatcher.rules.intake, refuse_unknown_types=False)
        try:
            admit(
                replace(job, id=name), NOBODY, rules=rules, handler=None, known_types=set(), now=now
            )
        except JobRefused as refused:
            raise ScheduleRefused(name, refused.field, refused.reason) from None

    async def pause(self, scope: JobScope, name: str, namespace: str | None = None) -> Schedule:
        """Stop a schedule; jobs that it has made go on."""
        return await self._changed(scope, name, namespace, paused, when_paused=False)

    async def resume(self, scope: JobScope, name: str, namespace: str | None = None) -> Schedule:
        """Let a schedule go on with its next tick."""
        return await self._changed(scope, name, namespace, resumed, when_paused=True)

    async def remove(self, scope: JobScope, name: str, namespace: str | None = None) -> None:
        """Forget a schedule; jobs that it has made go on."""
        await remove_schedule(self._store, _namespace(scope, name, namespace), name)

    async def trigger(
        self, scope: JobScope, name: str, namespace: str | None = None, *, job_id: str = ""
    ) -> str:
        """Make a job now, whatever else runs; return its id. With a `job_id`, once only."""
        if job_id and not is_name(job_id):
            raise ScheduleRefused(name, "job_id", f"found {job_id[:64]!r}; send {NAME_RULE}")
        schedule = await self.found(scope, name, namespace)
        job = replace(schedule.job, id=job_id or self._new_id(), scheduled=self._dispatcher.now())
        (made,) = await self._made(schedule, [job])
        if schedule.terms.overlap is not Overlap.ALL:
            await change_schedule(
                self._store, schedule.namespace, name, lambda known: _with_job(known, name, made)
            )
        return made

    async def backfill(
        self, scope: JobScope, name: str, namespace: str | None = None, *, begin: float, end: float
    ) -> list[str]:
        """Make the jobs of all ticks from `begin` and before `end` that are not there."""
        for field, moment in (("begin", begin), ("end", end)):
            if fault := moment_fault(moment):
                raise ScheduleRefused(name, field, fault)
        if not begin < end:
            raise ScheduleRefused(name, "end", f"found {end:.0f}; send a time after {begin:.0f}")
        schedule = await self.found(scope, name, namespace)
        ticks = ticks_between(schedule.terms.timing, begin, end, most=MOST_BACKFILLED + 1)
        if len(ticks) > MOST_BACKFILLED:
            raise ScheduleRefused(
                name,
                "end",
                f"there are more than {MOST_BACKFILLED:,} ticks; send an end of at most "
                f"{ticks[-1]:.0f}, and ask again for the rest",
            )
        jobs = [tick_job(schedule, tick, job_id=self._new_id()) for tick in ticks]
        return await self._made(schedule, jobs) if jobs else []

    async def _made(self, schedule: Schedule, jobs: Sequence[Submission]) -> list[str]:
        """Submit jobs of a schedule; return their ids, or those of jobs that were there before."""
        ids = []
        for receipt in await self._submit(jobs, schedule.namespace):
            holder = UniqueKeyTaken.holder_in(receipt.reason) if receipt.reason else None
            if receipt.reason and not holder:
                raise ScheduleRefused(schedule.name, receipt.field, refusal_in(receipt))
            ids.append(holder or receipt.job_id)
        return ids

    async def _changed(
        self,
        scope: JobScope,
        name: str,
        namespace: str | None,
        change: Callable[..., Schedule],
        *,
        when_paused: bool,
    ) -> Schedule:
        now = self._dispatcher.now()

        def changed(known: Schedule | None) -> Schedule:
            if known is None:
                raise ScheduleNotFound(name)
            return change(known, now=now) if known.is_paused is when_paused else known

        owner = _namespace(scope, name, namespace)
        return await change_schedule(self._store, owner, name, changed)


def _namespace(scope: JobScope, name: str, asked: str | None) -> str:
    """Return whose schedule is meant: one's own, unless one sees all."""
    if not is_name(name):
        raise ScheduleNotFound(name)
    if not scope.covers(asked):
        raise ScheduleNotFound(name)
    return scope.namespace if asked is None else asked


def _with_job(known: Schedule | None, name: str, job_id: str) -> Schedule:
    if known is None:
        raise ScheduleNotFound(name)
    if job_id in known.unfinished:
        return known
    return replace(known, unfinished=(*known.unfinished, job_id)[-MOST_UNFINISHED:])


def _page(found: Sequence[Schedule], limit: int) -> SchedulePage:
    shown = tuple(replace(it, job=replace(it.job, payload=b"")) for it in found[:limit])
    if len(found) <= limit:
        return SchedulePage(shown)
    return SchedulePage(shown, record_name(shown[-1].namespace, shown[-1].name))


def _end_of(namespace: str | None) -> str | None:
    """Return what all names of a namespace's records are before: a 0 follows the slash."""
    return None if namespace is None else f"{namespace}0"
