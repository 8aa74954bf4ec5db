"""What a returned call is worth: settings, kills, and other processes on the same file."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import threading

import pytest

from conformance.store.given import claim, job, jobs, running
from shunter.errors import StoreError
from shunter.store.port import JobQuery
from shunter.store.sqlite import SQLiteStore

INSERT_FOR_EVER = """
import asyncio, sys
from itertools import count
from conformance.store.given import job
from shunter.store.sqlite import SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    for number in count():
        batch = [job(f"{number}-{at}", payload=bytes(2000)) for at in range(5)]
        await store.insert(batch)
        print(number)

asyncio.run(main())
"""

CLAIM_UNTIL_EMPTY = """
import asyncio, sys
from conformance.store.given import claim
from shunter.store.sqlite import SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    print("ready")
    is_served, misses = False, 0
    while misses < (3 if is_served else 2000):
        requests = [claim(limit=3, by=sys.argv[2]) for _ in range(4)]
        parts = await asyncio.gather(*(store.claim(request) for request in requests))
        for part in parts:
            for it in part:
                print(it.id)
        is_served = is_served or any(parts)
        misses = 0 if any(parts) else misses + 1
        await asyncio.sleep(0.002)
    await store.close()

asyncio.run(main())
"""


def pragma(lane, name):
    async def ask():
        return await lane.submit(lambda connection: connection.execute(f"PRAGMA {name}").fetchone())

    return ask()


def test_both_connections_use_write_ahead_logging_and_full_synchronisation(run, store):
    for lane in (store.writer, store.reader):
        assert run(pragma(lane, "journal_mode")) == ("wal",)
        assert run(pragma(lane, "synchronous")) == (2,)
        assert run(pragma(lane, "busy_timeout")) == (10_000,)


def test_the_reading_connection_cannot_write(run, store):
    with pytest.raises(StoreError, match="readonly"):
        run(_submit(store.reader, "DELETE FROM jobs"))


async def _submit(lane, text):
    return await lane.submit(lambda connection: connection.execute(text).fetchone())


def test_what_was_stored_is_there_for_the_next_one(run, path):
    async def write():
        store = SQLiteStore(path)
        await store.open()
        await store.insert(jobs(10))
        await running(store, "busy")
        await store.close()

    async def read():
        store = SQLiteStore(path)
        await store.open()
        found = await store.find(JobQuery())
        await store.close()
        return found

    run(write())

    assert [it.id for it in run(read())] == ["busy", *(f"job-{n}" for n in reversed(range(10)))]


def test_every_insert_that_returned_survives_a_kill(run, path, process):
    victim = process(INSERT_FOR_EVER)
    returned = [int(victim.stdout.readline()) for _ in range(200)]
    victim.send_signal(signal.SIGKILL)
    returned += [int(line) for line in victim.stdout if line.strip()]
    victim.wait()

    async def survivors():
        store = SQLiteStore(path)
        await store.open()
        ids = [f"{number}-{at}" for number in returned for at in range(5)]
        found = await store.get(ids, payload=True)
        listed = await store.find(JobQuery(limit=100_000))
        await store.close()
        return found, listed

    found, listed = run(survivors())

    assert all(it is not None and it.payload == bytes(2000) for it in found)
    assert len(listed) % 5 == 0, "a batch was stored in part"


def test_two_stores_on_one_file_share_no_job(run, path):
    async def race():
        stores = [SQLiteStore(path), SQLiteStore(path)]
        await asyncio.gather(*(store.open() for store in stores))
        await stores[0].insert(jobs(500))
        calls = [store.claim(claim(limit=5)) for _ in range(55) for store in stores]
        parts = await asyncio.gather(*calls)
        for store in stores:
            await store.close()
        return parts

    taken = [it.id for part in run(race()) for it in part]

    assert sorted(taken) == sorted(it.id for it in jobs(500))


def test_two_processes_on_one_file_share_no_job(run, store, process):
    claimants = [process(CLAIM_UNTIL_EMPTY, f"d-{number}") for number in range(2)]
    assert [claimant.stdout.readline() for claimant in claimants] == ["ready\n", "ready\n"]

    run(store.insert(jobs(2000)))
    shares = [claimant.communicate(timeout=60)[0].split() for claimant in claimants]

    assert sorted(name for share in shares for name in share) == sorted(it.id for it in jobs(2000))
    assert all(shares), "one of them got nothing, so there was no race"
    assert [claimant.returncode for claimant in claimants] == [0, 0]


def test_a_locked_database_is_ridden_out(run, store, path):
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: blocker.execute("ROLLBACK"))
    release.start()

    assert run(store.insert([job("patient")])) == [job("patient")]

    release.join()
    blocker.close()


def test_reading_goes_on_while_the_database_is_locked(run, store, path):
    run(store.insert([job("one")]))
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")

    assert run(store.get(["one"], payload=True)) == [job("one")]

    blocker.close()


def test_a_database_that_stays_locked_is_an_error_that_says_what_to_do(run, path):
    store = SQLiteStore(path, busy_timeout=0.05)
    run(store.open())
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")

    with pytest.raises(
        StoreError, match=r"jobs\.db: another process keeps it locked.*busy_timeout"
    ):
        run(store.insert([job("late")]))

    blocker.execute("ROLLBACK")
    blocker.close()
    assert run(store.insert([job("late")])) == [job("late")]
    run(store.close())
