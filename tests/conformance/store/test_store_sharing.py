"""Several stores on one database at once: of two that want the same, one gets it."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, claimed, job, jobs, running, worker
from shunter.errors import UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.lifecycle import Berth
from shunter.store.port import Batch, JobQuery

ROUNDS = 8
WAKE_SECONDS = 10.0
"""Within how long another store must hear of a job, on a machine that is busy."""


@pytest.fixture
def three(database, opened):
    return [opened() for _ in range(3)]


def test_what_one_has_written_another_reads_at_once(run, three):
    mine, other, _ = three

    async def scene():
        for number in range(20):
            await mine.insert([job(f"job-{number}")])
            assert await other.get([f"job-{number}"]) != [None]

    run(scene())


def test_no_job_is_claimed_by_two(run, three):
    async def claim_all(store, by):
        taken, misses = [], 0
        while misses < 3:
            parts = await asyncio.gather(*(store.claim(claim(limit=3, by=by)) for _ in range(3)))
            got = [it for part in parts for it in part]
            assert all(it.dispatcher.id == by for it in got)
            taken += [it.id for it in got]
            misses = 0 if got else misses + 1
        return taken

    async def scene():
        await three[0].insert(jobs(150))
        return await asyncio.gather(*(claim_all(s, f"d-{at}") for at, s in enumerate(three)))

    taken = [job_id for part in run(scene()) for job_id in part]

    assert len(taken) == len(set(taken)), "a job was claimed twice"
    assert len(taken) == 150


def test_jobs_inserted_while_others_claim_are_claimed_once(run, three):
    first, *claimers = three
    seen = []

    async def claiming(store, by, is_over):
        while not (is_over.is_set() and not (await store.claim(claim(limit=1)))):
            batch = Batch(now=NOW, claims=[claim(limit=4, by=by)])
            [part] = (await store.commit(batch)).claimed
            seen.extend(it.id for it in part)
            await asyncio.sleep(0)

    async def scene():
        is_over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for at, store in enumerate(claimers):
                group.create_task(claiming(store, f"d-{at}", is_over))
            for number in range(15):
                await first.insert(jobs(4, f"round-{number}"))
            await asyncio.sleep(0.1)
            is_over.set()
        return await first.find(JobQuery(limit=1000))

    stored = run(scene())

    assert len(seen) == len(set(seen))
    assert {it.status.word for it in stored} == {"dispatching"}
    assert len(stored) == 60


def test_of_equal_ids_one_is_stored_and_all_are_told_which(run, three):
    async def scene():
        for number in range(ROUNDS):
            offers = [jobs(5, f"round-{number}") for _ in three]
            answers = await asyncio.gather(
                *(store.insert(offer) for store, offer in zip(three, offers, strict=True))
            )
            for at in range(5):
                mine = [
                    answer[at] is offer[at] for offer, answer in zip(offers, answers, strict=True)
                ]
                assert mine.count(True) == 1, "two were told that theirs is the one"
        return await three[0].find(JobQuery(limit=1000))

    assert len(run(scene())) == 5 * ROUNDS


def test_of_equal_unique_keys_one_is_stored(run, three):
    async def scene():
        for number in range(ROUNDS):
            offers = [job(f"{number}-{at}", unique_key=f"key-{number}") for at in range(3)]
            answers = await asyncio.gather(
                *(store.insert([offer]) for store, offer in zip(three, offers, strict=True))
            )
            ids = {answer[0].id for answer in answers}
            assert len(ids) == 1
            other = job(f"other-{number}", unique_key=f"key-{number}", payload=b"\xc0")
            [refusal] = await three[number % 3].insert([other])
            assert isinstance(refusal, UniqueKeyTaken)
        return await three[0].find(JobQuery(limit=1000))

    assert len(run(scene())) == ROUNDS


def test_of_equal_swaps_of_a_job_one_wins(run, three):
    async def scene():
        for number in range(ROUNDS):
            it = await running(three[0], f"job-{number}")
            ends = [
                lifecycle.completed(it, it.attempt, result=bytes([at]), now=NOW) for at in range(3)
            ]
            won = await asyncio.gather(
                *(
                    store.commit(Batch(now=NOW, replacements=[end]))
                    for store, end in zip(three, ends, strict=True)
                )
            )
            wins = [committed.replaced == [True] for committed in won]
            assert wins.count(True) == 1
            [stored] = await three[1].get([it.id])
            assert stored.result == bytes([wins.index(True)])

    run(scene())


def test_of_equal_swaps_of_a_worker_one_wins(run, three):
    async def scene():
        for number in range(ROUNDS):
            offers = [worker("w-1", revision=number + 1, port=at) for at in range(3)]
            won = await asyncio.gather(
                *(store.swap_workers([offer]) for store, offer in zip(three, offers, strict=True))
            )
            assert won.count([True]) == 1
            [stored] = await three[2].workers()
            assert stored.port == won.index([True])

    run(scene())


def test_a_place_is_given_to_one_job(run, three):
    async def scene():
        for number in range(ROUNDS):
            waiting = [await claimed(three[0], f"{number}-{at}") for at in range(3)]
            starts = [
                lifecycle.started(it, Berth(f"w-{number}", place=0), now=NOW) for it in waiting
            ]
            won = await asyncio.gather(
                *(store.replace([start]) for store, start in zip(three, starts, strict=True))
            )
            assert won.count([True]) == 1

    run(scene())


def test_a_claim_and_a_cancel_of_the_same_job_do_not_both_win(run, three):
    async def scene():
        for number in range(ROUNDS):
            given = job(f"job-{number}", type=f"type-{number}")
            await three[0].insert([given])
            gone = lifecycle.cancelled(given, now=NOW, stoppable=False)
            taken, swapped = await asyncio.gather(
                three[1].claim(claim(given.type)), three[2].replace([gone])
            )
            assert bool(taken) != swapped[0]

    run(scene())


@pytest.mark.parametrize("how", ["insert", "commit", "release"])
def test_a_job_that_one_queues_wakes_another(run, three, how):
    mine, other, _ = three

    async def queue(name):
        if how == "insert":
            await other.insert([job(name)])
        elif how == "commit":
            await other.commit(Batch(now=NOW, inserts=[job(name)]))
        else:
            it = await claimed(other, name)
            heard.clear()
            assert await other.replace([lifecycle.released(it, now=NOW)]) == [True]

    heard = asyncio.Event()

    async def scene():
        waited = []
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(mine.watch(heard.set))
            for number in range(50):  # until it has begun to watch
                await other.insert([job(f"early-{number}")])
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(heard.wait(), 0.3)
                    break
            await asyncio.sleep(0.3)
            for number in range(5):
                heard.clear()
                begun = time.monotonic()
                await queue(f"job-{number}")
                await asyncio.wait_for(heard.wait(), WAKE_SECONDS)
                waited.append(time.monotonic() - begun)
                await asyncio.sleep(0.3)
            assert not watching.done(), "it watches until it is cancelled"
            watching.cancel()
        return waited

    assert len(run(scene())) == 5


def test_a_store_that_closes_leaves_the_others_alone(run, database, three):
    mine, other, _ = three
    run(mine.insert([job("one")]))
    run(mine.close())

    assert run(other.get(["one"])) != [None]
    run(other.replace([replace(job("one"), revision=1)]))
    run(mine.open())
    assert run(mine.get(["one"]))[0].revision == 1
