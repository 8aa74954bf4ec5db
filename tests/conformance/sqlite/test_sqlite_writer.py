"""Group commit: many calls, few commits, and no call harmed by another."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from conformance.store.given import NOW, claim, job, jobs
from shunter.errors import StoreError
from shunter.model.job import Status
from shunter.store.sqlite import SQLiteStore

UNWRITABLE = {"created": 1e300}  # its rank is no 64-bit number


def test_calls_of_one_turn_share_one_commit(run, store):
    before = store.writer.commits

    async def one_turn():
        await asyncio.gather(*(store.insert([it]) for it in jobs(500)))

    run(one_turn())

    assert store.writer.commits - before == 1
    assert store.writer.operations == 500


def test_what_arrives_during_a_commit_shares_the_next_one(run, store):
    before = store.writer.commits
    entered, go_on = threading.Event(), threading.Event()

    def slow(connection):
        entered.set()
        assert go_on.wait(10)

    async def arrivals():
        first = store.writer.submit(slow)
        await asyncio.to_thread(entered.wait, 10)
        rest = []
        for it in jobs(50):
            rest.append(asyncio.ensure_future(store.insert([it])))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, *rest)

    run(arrivals())

    assert store.writer.commits - before == 2


def test_an_operation_that_fails_harms_no_other_in_its_group(run, store):
    good = jobs(5)

    async def together():
        return await asyncio.gather(
            store.insert(good[:2]),
            store.insert([job("bad", **UNWRITABLE)]),
            store.insert(good[2:]),
            store.claim(claim(limit=10)),
            return_exceptions=True,
        )

    first, bad, rest, claimed = run(together())

    assert (first, rest) == (good[:2], good[2:])
    assert isinstance(bad, OverflowError)
    assert [it.id for it in claimed] == [it.id for it in good]
    assert run(store.get(["bad"])) == [None]


def test_an_operation_that_fails_leaves_nothing_behind(run, store):
    batch = [*jobs(300), job("bad", **UNWRITABLE)]

    with pytest.raises(OverflowError):
        run(store.insert(batch))

    assert run(store.backlog()) == []


def test_an_sql_error_becomes_a_store_error_that_names_the_file(run, store):
    async def fail(lane):
        await lane.submit(lambda connection: connection.execute("SELECT * FROM nowhere"))

    for lane in (store.writer, store.reader):
        with pytest.raises(StoreError, match=r"jobs\.db: no such table: nowhere"):
            run(fail(lane))


def test_a_caller_that_gave_up_disturbs_nobody(run, store):
    async def give_up():
        impatient = asyncio.ensure_future(store.insert([job("one")]))
        patient = asyncio.ensure_future(store.insert([job("two")]))
        await asyncio.sleep(0)
        impatient.cancel()
        return await patient

    assert run(give_up()) == [job("two")]


def test_a_long_listing_does_not_hold_up_writing(run, store):
    reading, written = threading.Event(), threading.Event()

    def long_listing(connection):
        reading.set()
        assert written.wait(10), "the write waited for the reader"

    async def both():
        listing = store.reader.submit(long_listing)
        await asyncio.to_thread(reading.wait, 10)
        await store.insert([job("meanwhile")])
        written.set()
        await listing

    run(both())


def test_the_loop_turns_while_the_store_works(run, store):
    turns = 0

    async def count_turns(done):
        nonlocal turns
        while not done.done():
            turns += 1
            await asyncio.sleep(0)

    async def work():
        insertion = asyncio.ensure_future(store.insert(jobs(2000)))
        await count_turns(insertion)

    run(work())

    assert turns > 10


def threads_of(path):
    return [thread for thread in threading.enumerate() if path in thread.name]


def test_threads_end_with_the_store(run, path):
    store = SQLiteStore(path)
    run(store.open())
    assert len(threads_of(path)) == 3

    run(store.close())

    assert threads_of(path) == []


def test_no_thread_is_left_where_opening_failed(run, tmp_path):
    path = str(tmp_path / "missing" / "jobs.db")

    with pytest.raises(StoreError):
        run(SQLiteStore(path).open())

    assert threads_of(path) == []


def test_a_store_whose_loop_is_gone_can_still_finish(path):
    store = SQLiteStore(path)

    async def leave_without_waiting():
        await store.open()
        store.writer.submit(lambda connection: time.sleep(0.2))
        await asyncio.sleep(0.05)

    asyncio.run(leave_without_waiting())
    asyncio.run(reopened_elsewhere(path))

    for lane in (store.writer, store.reader):
        lane._inbox.put(None)
    store._inspector.stop()
    for thread in threads_of(path):
        thread.join(5)
    assert threads_of(path) == []


async def reopened_elsewhere(path):
    other = SQLiteStore(path)
    await other.open()
    await other.insert([job("one")])
    await other.close()


def test_purging_works_in_pieces_no_bigger_than_asked(run, store):
    run(store.insert([job(f"over-{n}", status=Status.CANCELLED) for n in range(10)]))

    async def rows(table):
        text = f"SELECT count(*) FROM {table}"
        return await store.reader.submit(lambda connection: connection.execute(text).fetchone()[0])

    assert run(store.purge(ended_before=NOW + 1, limit=3)) == 3

    assert run(rows("jobs")) == run(rows("payloads")) == 7
