"""Schedules on every store: what is put is there, and each tick is one job, whoever makes it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from shunter.dispatch.arrivals import Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.dispatch.tick_sweep import TickSweep
from shunter.errors import ScheduleNotFound, ScheduleRefused
from shunter.model.job import Status
from shunter.model.schedule import Overlap, ScheduleDraft, ScheduleTerms
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.submission import Receipt, Submission
from shunter.model.timing import Every
from shunter.store.port import JobQuery, Store
from shunter.testing.clock import VirtualClock

START = 1_700_000_040.0


class Place:
    """A dispatcher on a store, with a clock that is off by `skew`."""

    numbers = itertools.count()

    def __init__(self, store: Store, clock: VirtualClock, skew: float = 0.0) -> None:
        self.store = store
        self.dispatcher = Dispatcher(
            store,
            dispatcher_id=f"d-{next(self.numbers)}",
            rules=Rules(),
            now=lambda: clock() + skew,
            jitter=lambda: 0.5,
        )
        self.ticks = TickSweep(self.dispatcher, new_id=self.new_id, look_seconds=0.0)
        self.book = ScheduleBook(self.dispatcher, new_id=self.new_id, submit=self.submit)

    def new_id(self) -> str:
        return f"j-{next(self.numbers)}"

    async def submit(self, jobs: Sequence[Submission], namespace: str) -> Sequence[Receipt]:
        receipts: list[Receipt] = []
        submitter = Submitter(namespace=namespace)
        self.dispatcher.submit(jobs, receipts.extend, submitter=submitter)
        await self.dispatcher.turn()
        return receipts

    async def sweep(self) -> None:
        await self.ticks.sweep()
        if self.dispatcher.has_arrivals:
            await self.dispatcher.turn()
        await self.ticks.sweep()

    async def scheduled(self) -> list[float]:
        jobs = await self.store.find(JobQuery(limit=1000))
        return sorted((job.scheduled or 0.0) - START for job in jobs)


def draft(every: float = 60.0, **terms: Any) -> ScheduleDraft:
    return ScheduleDraft(
        terms=ScheduleTerms(timing=Every(every), **terms), job=Submission("", "report", b"\x91\x05")
    )


def test_what_is_put_is_there_until_it_is_removed(run, store):
    async def story() -> None:
        book = Place(store, VirtualClock(START)).book
        made = await book.put(EVERYTHING, "a/b", draft(jitter=2.5))
        assert await book.found(EVERYTHING, "a/b") == made
        assert (await book.pause(EVERYTHING, "a/b")).is_paused
        assert not (await book.resume(EVERYTHING, "a/b")).is_paused
        await book.remove(EVERYTHING, "a/b")
        with pytest.raises(ScheduleNotFound):
            await book.found(EVERYTHING, "a/b")
        with pytest.raises(ScheduleNotFound):
            await book.remove(EVERYTHING, "a/b")
        with pytest.raises(ScheduleNotFound):
            await book.pause(EVERYTHING, "a/b")
        with pytest.raises(ScheduleRefused):
            await book.put(EVERYTHING, "a/b", draft(0.0))

    run(story())


def test_schedules_are_listed_in_pages_each_namespace_its_own(run, store):
    async def story() -> None:
        book = Place(store, VirtualClock(START)).book
        shop, lab = JobScope("shop"), JobScope("lab")
        for name in ("a", "b", "c"):
            await book.put(shop, name, draft())
        await book.put(lab, "a", draft(7.0))
        await book.put(EVERYTHING, "z", draft())

        first = await book.listed(shop, limit=2)
        rest = await book.listed(shop, limit=2, before=first.next)
        assert [it.name for it in (*first.schedules, *rest.schedules)] == ["c", "b", "a"]
        assert rest.next is None
        assert {it.job.payload for it in first.schedules} == {b""}
        assert [it.name for it in (await book.listed(lab)).schedules] == ["a"]
        assert (await book.listed(lab, namespace="shop")).schedules == ()
        everything = (await book.listed(EVERYTHING)).schedules
        assert [(it.namespace, it.name) for it in everything] == [
            ("shop", "c"), ("shop", "b"), ("shop", "a"), ("lab", "a"), ("", "z")
        ]  # fmt: skip
        assert (await book.found(EVERYTHING, "a", "lab")).terms.timing == Every(7.0)
        for theirs in ("b", "z"):
            with pytest.raises(ScheduleNotFound):
                await book.found(lab, theirs)
        with pytest.raises(ScheduleNotFound):
            await book.remove(lab, "b", "shop")

    run(story())


@pytest.mark.parametrize("skew", [0.0, 60.0, -60.0])
def test_two_dispatchers_make_each_tick_one_job_though_their_clocks_differ(run, opened, skew):
    async def story() -> None:
        clock = VirtualClock(START)
        one, two = Place(opened_stores[0], clock), Place(opened_stores[1], clock, skew)
        await one.book.put(EVERYTHING, "a", draft(30.0, overlap=Overlap.ALL))
        for _ in range(40):
            clock.advance(7.0)
            await asyncio.gather(one.sweep(), two.sweep())
        latest = 280.0 + max(skew, 0.0)
        assert await one.scheduled() == [at for at in range(30, 400, 30) if at <= latest]

    opened_stores = opened(), opened()
    run(story())


def test_ticks_of_a_namespace_are_its_jobs(run, store):
    async def story() -> None:
        clock = VirtualClock(START)
        place = Place(store, clock)
        for namespace in ("shop", "lab"):
            await place.book.put(JobScope(namespace), "a", draft())
        clock.advance(60.0)
        await place.sweep()
        jobs = await store.find(JobQuery())
        assert {(job.namespace, job.unique_key) for job in jobs} == {
            (namespace, "schedule/a/2023-11-14T22:15:00Z") for namespace in ("shop", "lab")
        }

    run(story())


def test_the_unfinished_job_is_cancelled_before_the_next_one_is_made(run, store):
    async def story() -> None:
        clock = VirtualClock(START)
        place = Place(store, clock)
        await place.book.put(EVERYTHING, "a", draft(overlap=Overlap.CANCEL))
        for _ in range(3):
            clock.advance(60.0)
            await place.sweep()
        jobs = await store.find(JobQuery())
        assert [job.status for job in jobs] == [Status.QUEUED, Status.CANCELLED, Status.CANCELLED]

    run(story())


def test_ticks_are_made_up_for_once_and_jobs_made_by_hand(run, store):
    async def story() -> None:
        clock = VirtualClock(START)
        place = Place(store, clock)
        await place.book.put(EVERYTHING, "a", draft())
        clock.advance(60.0)
        await place.sweep()
        span = {"begin": START - 120, "end": START + 120}
        made = await place.book.backfill(EVERYTHING, "a", **span)
        assert await place.book.backfill(EVERYTHING, "a", **span) == made
        assert await place.scheduled() == [-120.0, -60.0, 0.0, 60.0]

        by_hand = await place.book.trigger(EVERYTHING, "a", job_id="mine")
        assert await place.book.trigger(EVERYTHING, "a", job_id="mine") == by_hand == "mine"
        assert len(await place.scheduled()) == 5
        assert "mine" in (await place.book.found(EVERYTHING, "a")).unfinished
        place.dispatcher.schedules_known = 100_000
        await place.book.put(EVERYTHING, "a", draft())
        with pytest.raises(ScheduleRefused, match="as many as may be"):
            await place.book.put(EVERYTHING, "b", draft())
        with pytest.raises(ScheduleRefused, match="1,000 ticks"):
            await place.book.backfill(EVERYTHING, "a", begin=0.0, end=START)
        with pytest.raises(ScheduleRefused, match="end"):
            await place.book.backfill(EVERYTHING, "a", begin=START, end=START)

    run(story())
