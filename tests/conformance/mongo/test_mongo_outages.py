"""A server that steps down, is killed, or stands still: what was promised is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest

from conformance.mongo.server import is_frozen
from conformance.store.given import NOW, claim, job, jobs, worker
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.model.lifecycle import WorkerSlot
from shunter.store.mongo import MongoStore
from shunter.store.port import Batch, JobQuery
from shunter.testing import mongod as servers
from shunter.testing.mongod import LocalMongod

pytestmark = pytest.mark.usefixtures("lost_sockets")


@pytest.fixture(scope="module")
def victim() -> Iterator[LocalMongod]:
    """A server of our own, so that nobody else suffers."""
    with LocalMongod(in_memory=True) as server:
        yield server


async def stream(store, prefix, names, is_over):
    """Insert, claim, start and complete jobs, batch by batch; `names` gets the ids of them."""
    running, number = [], 0
    while not is_over.is_set() or running:
        new = [] if is_over.is_set() else jobs(5, f"{prefix}-{number}")
        number += 1
        done = [lifecycle.completed(it, 1, result=it.id.encode(), now=NOW) for it in running]
        committed = await insisted(
            store, Batch(now=NOW, inserts=new, replacements=done, claims=[claim(limit=5)])
        )
        # As it stands: where an answer was lost, another client may have claimed it already.
        assert [stored.id for stored in committed.inserted] == [it.id for it in new]
        assert all(committed.replaced), "a job was written by somebody else"
        names += [it.id for it in new]
        [claimed] = committed.claimed
        running = [lifecycle.started(it, WorkerSlot("w"), now=NOW) for it in claimed]
        started = await insisted(store, Batch(now=NOW, replacements=running))
        assert all(started.replaced)


async def insisted(store, batch):
    """Commit as a dispatcher does: the same batch, until it is written."""
    while True:
        try:
            return await store.commit(batch)
        except StoreError:
            await asyncio.sleep(0.05)


def disturbed(run, server, database, disturb, *, patience):
    """Let three clients write while the server is disturbed; return what they did, and all jobs."""

    async def play():
        stores = [MongoStore(server.url(database), patience=patience) for _ in range(3)]
        for store in stores:
            await store.open()
        is_over = asyncio.Event()
        names = [[] for _ in stores]

        async def progress():
            goals = [len(done) + 20 for done in names]
            while any(len(done) < goal for done, goal in zip(names, goals, strict=True)):
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            for at, store in enumerate(stores):
                group.create_task(stream(store, f"c{at}", names[at], is_over))
            await progress()
            await asyncio.to_thread(disturb)
            await progress()
            is_over.set()
        found = await stores[0].find(JobQuery(limit=100_000))
        full = await stores[0].get([it.id for it in found])
        for store in stores:
            await store.close()
        return [name for done in names for name in done], full

    return run(play())


@pytest.mark.parametrize("patience", [10.0, 0.0], ids=["patient", "impatient"])
@pytest.mark.parametrize("how", ["step-down", "kill"])
def test_nothing_is_lost_and_nothing_done_twice(run, victim, how, patience):
    def disturb():
        if how == "kill":
            victim.kill()
            victim.start()
        else:
            victim.step_down(1)
            time.sleep(1.1)

    names, found = disturbed(run, victim, f"{how}-{patience:g}", disturb, patience=patience)

    assert len(names) >= 3 * 40
    assert sorted(it.id for it in found) == sorted(names)
    for it in found:
        assert (it.status.word, it.attempt, it.revision) == ("completed", 1, 3)
        assert it.result == it.id.encode()


def test_a_server_that_stays_away_is_an_error_with_a_remedy_and_then_forgotten(run, victim):
    async def play():
        store = MongoStore(victim.url("away"), patience=0.5)
        await store.open()
        os.kill(victim.pid, signal.SIGSTOP)
        while not is_frozen(victim.pid):  # each thread stops by itself, a little later
            await asyncio.sleep(0.001)
        began = time.monotonic()
        try:
            with pytest.raises(StoreError, match=r"mongodb://127.*/away: .*server") as caught:
                await store.insert([job("one")])
            with pytest.raises(StoreError, match="see "):
                await store.get(["one"])
        finally:
            os.kill(victim.pid, signal.SIGCONT)
        took = time.monotonic() - began
        await insisted(store, Batch(now=NOW, inserts=[job("two")]))
        [two] = await store.get(["two"], payload=True)
        await store.close()
        return took, caught.value, two

    took, error, two = run(play())

    assert took < 20, "by itself, MongoDB's driver waits for 30 s"
    assert error.__cause__ is not None
    assert two == job("two")


def test_closing_waits_for_what_was_begun(run, victim):
    async def play():
        store = MongoStore(victim.url("closing"))
        await store.open()
        calls = [asyncio.ensure_future(store.insert([it])) for it in jobs(20)]
        reads = [asyncio.ensure_future(store.workers()) for _ in range(5)]
        await asyncio.sleep(0)
        await store.close()
        return await asyncio.gather(*calls), await asyncio.gather(*reads)

    inserted, read = run(play())

    assert inserted == [[it] for it in jobs(20)]
    assert read == [[]] * 5


def test_what_was_written_is_there_after_a_restart(run, victim):
    async def write():
        store = MongoStore(victim.url("restart"))
        await store.open()
        await store.insert([job("one", payload=bytes(100_000))])
        await store.put_workers([worker("w-1")])
        await store.close()

    async def read():
        store = MongoStore(victim.url("restart"))
        await store.open()
        found = await store.get(["one"], payload=True), await store.workers()
        await store.close()
        return found

    run(write())
    victim.restart()

    assert run(read()) == ([job("one", payload=bytes(100_000))], [worker("w-1")])


def test_a_missing_program_is_an_error_that_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(servers.MongodMissing, match=r"pip install -r requirements-dev\.txt"):
        LocalMongod()


def test_a_server_that_does_not_come_up_says_why(tmp_path):
    (tmp_path / "storage.bson").write_bytes(b"not BSON")

    with pytest.raises(servers.MongodFailed, match=r"ended with \d+; .*mongod\.log ends with"):
        LocalMongod(tmp_path).start()
