"""Hearing of jobs that another client has put into the queue."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import asynccontextmanager, suppress

import pytest
from pymongo import AsyncMongoClient

from conformance.store.given import NOW, claim, job, jobs
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.lifecycle import WorkerSlot
from shunter.store.mongo import MongoStore
from shunter.testing.mongod import LocalMongod

QUIET_SECONDS = 0.15
PATIENCE = 20.0
ROUNDS = 8
"""One of them is enough: a busy machine may hear of anything late."""


class Ear:
    """Counts what it is told, and lets one wait for it."""

    def __init__(self):
        self.count = 0
        self._heard = asyncio.Event()

    def notify(self):
        self.count += 1
        self._heard.set()

    async def told(self, within=PATIENCE):
        async with asyncio.timeout(within):
            await self._heard.wait()
        self._heard.clear()

    async def stays_quiet(self):
        before = self.count
        await asyncio.sleep(QUIET_SECONDS)
        return self.count == before


@asynccontextmanager
async def watching(store):
    """An ear at the store, from when it can hear."""
    ear = Ear()
    task = asyncio.ensure_future(store.watch(ear.notify))
    try:
        await ear.told()
        yield ear
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_a_job_that_another_client_inserts_is_heard_of_within_50_ms(run, opened):
    mine, theirs = opened(), opened()

    async def measure():
        delays = []
        async with watching(mine) as ear:
            for number in range(30):
                await asyncio.sleep(0.02)
                began = time.monotonic()
                await theirs.insert([job(f"job-{began}-{number}")])
                await ear.told()
                delays.append(time.monotonic() - began)
        return delays

    assert any(statistics.median(run(measure())) < 0.05 for _ in range(ROUNDS))


def test_jobs_that_become_ready_again_are_heard_of(run, opened):
    mine, theirs = opened(), opened()

    async def play():
        await theirs.insert([job("one"), job("late", type="t", wait_until=NOW + 1)])
        [claimed] = await theirs.claim(claim())
        async with watching(mine) as ear:
            await theirs.replace([lifecycle.released(claimed, now=NOW)])
            await ear.told()
            late = job("late", type="t", wait_until=NOW + 1)
            await theirs.replace([lifecycle.came_due(late, now=NOW + 1)])
            await ear.told()
            assert await ear.stays_quiet()

    run(play())


def test_what_nobody_can_claim_and_what_is_our_own_is_not_told(run, opened):
    mine, theirs = opened(), opened()

    async def play():
        async with watching(mine) as ear:
            await mine.insert(jobs(3, "own"))
            [first, *_] = await mine.claim(claim(limit=2))
            await mine.replace([lifecycle.released(first, now=NOW)])
            taken = lifecycle.claimed(job("fast", type="t"), dispatcher_id="d", now=NOW)
            started = lifecycle.started(taken, WorkerSlot("w"), now=NOW)
            await theirs.insert([started, job("late", wait_until=NOW + 9)])
            await theirs.replace([lifecycle.completed(started, 1, result=b"", now=NOW)])
            await theirs.claim(claim())
            assert await ear.stays_quiet()
            assert ear.count == 1

    run(play())


def test_a_flood_is_told_in_few_words(run, opened):
    mine, theirs = opened(), opened()

    async def play():
        async with watching(mine) as ear:
            for number in range(10):
                await theirs.insert(jobs(200, f"flood-{number}"))
            await ear.told()
            await asyncio.sleep(QUIET_SECONDS)
            return ear.count

    assert run(play()) < 100


def test_an_idle_ear_costs_next_to_nothing(run, opened):
    store = opened()

    async def play():
        async with watching(store) as ear:
            began = time.process_time()
            assert await ear.stays_quiet()
            return time.process_time() - began

    assert any(run(play()) < 0.1 * QUIET_SECONDS for _ in range(ROUNDS))


@pytest.mark.usefixtures("lost_sockets")
def test_an_ear_goes_on_hearing_after_a_step_down_and_after_a_kill(run):
    async def play(server):
        mine, theirs = MongoStore(server.url("waking")), MongoStore(server.url("waking"))
        await mine.open()
        await theirs.open()
        async with watching(mine) as ear:
            await asyncio.to_thread(server.step_down, 1)
            await theirs.insert([job("one")])
            await ear.told()
            while not await ear.stays_quiet():
                pass
            await theirs.insert([job("two")])
            await ear.told()
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            while not await ear.stays_quiet():
                pass
            await theirs.insert([job("three")])
            await ear.told()
        await mine.close()
        await theirs.close()

    with LocalMongod(in_memory=True) as server:
        run(play(server))


def test_a_closed_store_has_no_ear(run, store):
    run(store.close())

    with pytest.raises(StoreError, match="not open"):
        run(store.watch(lambda: None))
    run(store.open())


def test_closing_ends_the_ear_with_a_reason(run, opened):
    store = opened()

    async def play():
        ear = Ear()
        task = asyncio.ensure_future(store.watch(ear.notify))
        await ear.told()
        await store.close()
        async with asyncio.timeout(10):
            with pytest.raises(StoreError):
                await task

    run(play())


def test_a_note_that_is_owed_is_written_before_the_store_is_closed(run, opened, url):
    mine, theirs = opened(), MongoStore(url)

    async def play():
        await theirs.open()
        async with watching(mine) as ear:
            await theirs.insert([job("one")])  # of this a note is left at once
            await theirs.insert([job("two")])  # of this one when the pause is over
            await theirs.close()
            await ear.told()
        async with AsyncMongoClient(url) as client:
            wakes = client.get_default_database()["wakes"]
            return await wakes.count_documents({"by": theirs.client_id})

    assert run(play()) == 2
