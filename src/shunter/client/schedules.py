"""Schedules, as clients put and change them: checked here first, so mistakes are heard at once.

The asynchronous face asks; the synchronous one has it asked. Neither knows how questions travel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from shunter.app import JobFunction
from shunter.codec import Codec, CodecContext, SealedField, is_sealed, seal
from shunter.errors import ScheduleNotFound, ScheduleRefused
from shunter.model.schedule import (
    DEFAULT_CATCH_UP_SECONDS,
    Overlap,
    Schedule,
    ScheduleDraft,
    ScheduleTerms,
    draft_faults,
)
from shunter.model.submission import Submission
from shunter.model.timing import Timing
from shunter.payload import payload_of_parts
from shunter.wire.messages import (
    Kind,
    Message,
    ScheduleOrder,
    SchedulesAsked,
    SchedulesListed,
    ScheduleVerb,
)

Handle = TypeVar("Handle")
T = TypeVar("T")
Moment = float | datetime

LISTED_AT_ONCE = 500

_List = list  # which is the name of a method below

Ask = Callable[[Kind, Callable[[int], Message]], Awaitable[object]]


class JobMaker(Protocol):
    """What a client knows about the jobs that it makes: options, codec, names."""

    def template(self, job: str | JobFunction[..., Any], payload: bytes) -> Submission:
        """Return a job as it would be submitted, but without sealing it."""
        ...

    def codec_for(self, job: str | JobFunction[..., Any]) -> Codec | None: ...

    def new_id(self) -> str: ...


class PutOptions(Struct, frozen=True, kw_only=True):
    """What `put` takes besides the job. `paused` is None to leave that as it is."""

    schedule: Timing
    overlap: str = Overlap.SKIP
    catch_up: float = DEFAULT_CATCH_UP_SECONDS
    jitter: float = 0.0
    paused: bool | None = None


class AsyncSchedules(Generic[Handle]):
    """The schedules that this client may see. `handle` makes the handle of a job."""

    def __init__(self, ask: Ask, maker: JobMaker, handle: Callable[[str], Handle]) -> None:
        self._ask, self._maker, self._handle = ask, maker, handle

    async def put(
        self,
        name: str,
        job: str | JobFunction[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        schedule: Timing,
        overlap: str = Overlap.SKIP,
        catch_up: float = DEFAULT_CATCH_UP_SECONDS,
        jitter: float = 0.0,
        paused: bool | None = None,
        namespace: str | None = None,
    ) -> Schedule:
        """Make or change a schedule that calls a job with these arguments; return it as it is.

        `overlap` is skip, one, all or cancel: what becomes of a tick while an earlier job of the
        schedule is unfinished. Ticks of the last `catch_up` seconds are made up for after an
        outage. Each tick comes up to `jitter` seconds later.
        """
        options = PutOptions(
            schedule=schedule, overlap=overlap, catch_up=catch_up, jitter=jitter, paused=paused
        )
        payload = payload_of_parts(args, kwargs)
        return await self.put_raw(name, job, payload, options, namespace=namespace)

    async def put_raw(
        self,
        name: str,
        job: str | JobFunction[..., Any],
        payload: bytes,
        options: PutOptions,
        *,
        namespace: str | None = None,
    ) -> Schedule:
        """Do the same with a payload that is a msgpack document already."""
        terms = ScheduleTerms(
            timing=options.schedule,
            overlap=options.overlap,  # type: ignore[arg-type]  # checked below
            catch_up=options.catch_up,
            jitter=options.jitter,
        )
        template = self._maker.template(job, self._sealed(job, payload))
        draft = ScheduleDraft(terms=terms, job=template, is_paused=options.paused)
        for field, reason in draft_faults(name, draft):
            raise ScheduleRefused(name, field, reason)
        found = await self._order(ScheduleVerb.PUT, name, namespace, draft=draft)
        return found.schedules[0]

    async def list(self, namespace: str | None = None) -> _List[Schedule]:
        """Return all schedules that this client sees, by name, without their payloads."""
        found: list[Schedule] = []
        before: str | None = None
        while True:
            asked = {"namespace": namespace, "before": before, "limit": LISTED_AT_ONCE}
            page = await self._asked(asked)
            found += page.schedules
            if page.next is None:
                return sorted(found, key=lambda it: (it.namespace, it.name))
            before = page.next

    async def get(self, name: str, namespace: str | None = None) -> Schedule:
        """Return one schedule, or raise ScheduleNotFound."""
        return (await self._asked({"name": name, "namespace": namespace})).schedules[0]

    async def pause(self, name: str, namespace: str | None = None) -> Schedule:
        """Have no more jobs made; those that were go on."""
        return (await self._order(ScheduleVerb.PAUSE, name, namespace)).schedules[0]

    async def resume(self, name: str, namespace: str | None = None) -> Schedule:
        """Go on with the next tick; those of the pause are left out."""
        return (await self._order(ScheduleVerb.RESUME, name, namespace)).schedules[0]

    async def remove(self, name: str, namespace: str | None = None) -> None:
        """Forget a schedule; jobs that it has made go on."""
        await self._order(ScheduleVerb.REMOVE, name, namespace)

    async def trigger(self, name: str, namespace: str | None = None) -> Handle:
        """Have a job made now, besides the ticks; return its handle."""
        job_id = self._maker.new_id()
        found = await self._order(ScheduleVerb.TRIGGER, name, namespace, job_id=job_id)
        return self._handle(found.job_ids[0])

    async def backfill(
        self, name: str, begin: Moment, end: Moment, namespace: str | None = None
    ) -> _List[Handle]:
        """Make the jobs of all ticks from `begin` and before `end` that are not there already."""
        span = {"begin": _seconds(name, "begin", begin), "end": _seconds(name, "end", end)}
        found = await self._order(ScheduleVerb.BACKFILL, name, namespace, **span)
        return [self._handle(job_id) for job_id in found.job_ids]

    def _sealed(self, job: str | JobFunction[..., Any], payload: bytes) -> bytes:
        """Return the payload as it may leave us: for any job of the type, as there will be many."""
        codec = self._maker.codec_for(job)
        if codec is None or is_sealed(payload):
            return payload
        job_type = job.name if isinstance(job, JobFunction) else job
        return seal(codec, payload, CodecContext(SealedField.PAYLOAD, "", job_type))

    async def _asked(self, asked: dict[str, Any]) -> SchedulesListed:
        answer = await self._ask(Kind.SCHEDULES, lambda n: SchedulesAsked(n, **asked))
        return _accepted(answer)

    async def _order(
        self, verb: ScheduleVerb, name: str, namespace: str | None, **details: Any
    ) -> SchedulesListed:
        answer = await self._ask(
            Kind.SCHEDULE, lambda n: ScheduleOrder(n, verb, name, namespace, **details)
        )
        return _accepted(answer)


class Schedules(Generic[Handle]):
    """The same for callers that wait. `do` has a coroutine run."""

    def __init__(
        self,
        schedules: AsyncSchedules[Handle],
        do: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self._async, self._do = schedules, do

    def put(
        self,
        name: str,
        job: str | JobFunction[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        schedule: Timing,
        overlap: str = Overlap.SKIP,
        catch_up: float = DEFAULT_CATCH_UP_SECONDS,
        jitter: float = 0.0,
        paused: bool | None = None,
        namespace: str | None = None,
    ) -> Schedule:
        """Make or change a schedule that calls a job with these arguments; return it as it is.

        `overlap` is skip, one, all or cancel: what becomes of a tick while an earlier job of the
        schedule is unfinished. Ticks of the last `catch_up` seconds are made up for after an
        outage. Each tick comes up to `jitter` seconds later.
        """
        options = PutOptions(
            schedule=schedule, overlap=overlap, catch_up=catch_up, jitter=jitter, paused=paused
        )
        payload = payload_of_parts(args, kwargs)
        return self.put_raw(name, job, payload, options, namespace=namespace)

    def put_raw(
        self,
        name: str,
        job: str | JobFunction[..., Any],
        payload: bytes,
        options: PutOptions,
        *,
        namespace: str | None = None,
    ) -> Schedule:
        """Do the same with a payload that is a msgpack document already."""
        work = self._async.put_raw(name, job, payload, options, namespace=namespace)
        return self._done(work)

    def list(self, namespace: str | None = None) -> _List[Schedule]:
        """Return all schedules that this client sees, by name, without their payloads."""
        return self._done(self._async.list(namespace))

    def get(self, name: str, namespace: str | None = None) -> Schedule:
        """Return one schedule, or raise ScheduleNotFound."""
        return self._done(self._async.get(name, namespace))

    def pause(self, name: str, namespace: str | None = None) -> Schedule:
        """Have no more jobs made; those that were go on."""
        return self._done(self._async.pause(name, namespace))

    def resume(self, name: str, namespace: str | None = None) -> Schedule:
        """Go on with the next tick; those of the pause are left out."""
        return self._done(self._async.resume(name, namespace))

    def remove(self, name: str, namespace: str | None = None) -> None:
        """Forget a schedule; jobs that it has made go on."""
        self._done(self._async.remove(name, namespace))

    def trigger(self, name: str, namespace: str | None = None) -> Handle:
        """Have a job made now, besides the ticks; return its handle."""
        return self._done(self._async.trigger(name, namespace))

    def backfill(
        self, name: str, begin: Moment, end: Moment, namespace: str | None = None
    ) -> _List[Handle]:
        """Make the jobs of all ticks from `begin` and before `end` that are not there already."""
        return self._done(self._async.backfill(name, begin, end, namespace))

    def _done(self, work: Coroutine[Any, Any, T]) -> T:
        done: T = self._do(work)
        return done


def _accepted(answer: object) -> SchedulesListed:
    assert isinstance(answer, SchedulesListed)
    refusal = answer.refusal
    if refusal is None:
        return answer
    if not refusal.reason:
        raise ScheduleNotFound(refusal.job_id)
    raise ScheduleRefused(refusal.job_id, refusal.field, refusal.reason)


def _seconds(name: str, field: str, moment: Moment) -> float:
    if isinstance(moment, int | float) and not isinstance(moment, bool):
        return float(moment)
    if not isinstance(moment, datetime):
        rule = "pass seconds since 1970, or a datetime with a zone"
        raise ScheduleRefused(name, field, f"found {moment!r}; {rule}")
    if moment.tzinfo is None:
        raise ScheduleRefused(
            name, field, f"found {moment} without a zone; pass one with it, or seconds since 1970"
        )
    return moment.timestamp()
