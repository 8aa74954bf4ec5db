"""How SQLite searches for people: no table is walked, and twice the jobs cost no more."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from conformance.store.given import NOW, ended, job, jobs, running
from shunter.model.job import Status
from shunter.store.search import JobSearch
from shunter.store.sqlite import SQLiteStore, searches
from shunter.store.sqlite.queue_look import queue_look

FEW, MANY, LOOKED_AT = 3000, 12_000, 500

SEARCHES = {
    "all": JobSearch(most=LOOKED_AT),
    "a rare type": JobSearch(type="rare", most=LOOKED_AT),
    "an error": JobSearch(text="nowhere", most=LOOKED_AT),
    "failed": JobSearch(status=Status.FAILED, most=LOOKED_AT),
    "completed of a worker": JobSearch(status=Status.COMPLETED, worker_id="w", most=LOOKED_AT),
    "running": JobSearch(status=Status.IN_PROGRESS, type="rare", most=LOOKED_AT),
    "the queue": JobSearch(status=Status.QUEUED, most=LOOKED_AT),
    "the queue of a type": JobSearch(status=Status.QUEUED, type="sum", most=LOOKED_AT),
    "delayed": JobSearch(status=Status.QUEUED, is_delayed=True, most=LOOKED_AT),
    "a key": JobSearch(key="key-7", most=LOOKED_AT),
    "a schedule": JobSearch(key_prefix="schedule/none/", most=LOOKED_AT),
    "since": JobSearch(created_from=NOW + 1e6, most=LOOKED_AT),
    "until": JobSearch(created_until=NOW + 1, most=LOOKED_AT),
    "a namespace": JobSearch(namespace="shop", most=LOOKED_AT),
}


AROUND = {
    "around a job": job("last", created=NOW + 1e6),
    "around a job in a lane": job("last", created=NOW + 1e6, lane="tenant=1"),
}


def do(connection, name):
    if name in AROUND:
        return queue_look(connection, AROUND[name], LOOKED_AT, 20)
    if name == "depths":
        return searches.depths(connection, LOOKED_AT)
    return searches.search(connection, SEARCHES[name])


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two stores with the same kinds of jobs, one of them with four times as many."""
    folder = tmp_path_factory.mktemp("searches")
    with asyncio.Runner() as runner:
        made = []
        for count in (FEW, MANY):
            store = SQLiteStore(str(folder / f"{count}.db"))
            runner.run(store.open())
            runner.run(fill(store, count))
            made.append(store)
        yield runner.run, made
        for store in made:
            runner.run(store.close())


async def fill(store, count):
    third = count // 3
    await store.insert(jobs(third, "queued"))
    await store.insert([job(f"laned-{n}", lane=f"tenant={n % 2}") for n in range(third)])
    await store.insert([job(f"late-{n}", wait_until=NOW + n) for n in range(third)])
    names = (f"key-{n}" for n in itertools.count())
    await store.insert([job(f"keyed-{n}", unique_key=next(names)) for n in range(third)])
    await ended(store, "done")
    await running(store, "busy")


@pytest.mark.parametrize("name", [*SEARCHES, *AROUND, "depths"])
def test_four_times_the_jobs_cost_no_more(stores, name):
    run, (few, many) = stores

    def steps(store):
        """How many instructions SQLite's machine carries out, in hundreds."""

        async def count():
            def counted(connection):
                ticks = []
                connection.set_progress_handler(lambda: ticks.append(1) and None, 100)
                try:
                    do(connection, name)
                finally:
                    connection.set_progress_handler(None, 0)
                return len(ticks)

            return await store.reader.submit(counted)

        return run(count())

    assert steps(many) <= 1.3 * steps(few) + 20


@pytest.mark.parametrize("name", [*SEARCHES, *AROUND, "depths"])
def test_each_statement_is_led_by_an_index(stores, name):
    run, (few, _) = stores

    async def plans():
        def explained(connection):
            seen = []
            connection.set_trace_callback(seen.append)
            do(connection, name)
            connection.set_trace_callback(None)
            return [
                row[3]
                for text in seen
                if text.lstrip().upper().startswith(("SELECT", "WITH"))
                for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")
            ]

        return await few.reader.submit(explained)

    walked = [step for step in run(plans()) if step.startswith("SCAN jobs") and "INDEX" not in step]
    assert walked == []
