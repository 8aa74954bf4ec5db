"""Purging what has ended long ago, and opening and closing."""

from __future__ import annotations

import asyncio

import pytest

from conformance.store.given import NOW, claim, ended, job, jobs, running
from shunter.errors import StoreError
from shunter.model import lifecycle
from shunter.store.port import JobQuery


def test_purge_deletes_what_ended_before_and_nothing_else(run, store):
    run(ended(store, "old", at=NOW - 10))
    run(ended(store, "fresh", at=NOW))
    run(running(store, "busy"))
    run(store.insert([job("queued", created=NOW - 1000, updated=NOW - 1000)]))

    assert run(store.purge(ended_before=NOW, limit=100)) == 1

    assert [it.id for it in run(store.find(JobQuery()))] == ["queued", "busy", "fresh"]
    assert run(store.get(["old"], payload=True)) == [None]


def test_purge_stops_at_its_limit_and_takes_the_earliest_first(run, store):
    given = jobs(10)
    run(store.insert(given))
    over = [
        lifecycle.cancelled(it, now=NOW - number, stoppable=False)
        for number, it in enumerate(given)
    ]
    run(store.replace(over))

    counts = [run(store.purge(ended_before=NOW + 1, limit=4))]
    left = [it.id for it in run(store.find(JobQuery()))]
    counts += [run(store.purge(ended_before=NOW + 1, limit=4)) for _ in range(3)]

    assert counts == [4, 4, 2, 0]
    assert left == [f"job-{number}" for number in reversed(range(6))]


def test_every_final_status_is_purged_even_without_a_time_of_its_end(run, store):
    statuses = sorted(lifecycle.Status)
    run(store.insert([job(f"is-{status}", status=status) for status in statuses]))

    assert run(store.purge(ended_before=NOW + 1, limit=100)) == 3
    assert all(not it.status.is_final for it in run(store.find(JobQuery())))


def test_a_purged_job_frees_its_id_its_key_and_its_payload(run, store):
    run(ended(store, "one", at=NOW - 1, unique_key="k"))
    run(store.purge(ended_before=NOW, limit=1))

    again = job("one", unique_key="k", payload=b"another")

    assert run(store.insert([again])) == [again]
    assert [it.payload for it in run(store.claim(claim()))] == [b"another"]


def test_a_closed_store_refuses_with_a_reason_and_may_be_opened_again(run, store):
    run(store.close())

    with pytest.raises(StoreError, match="not open"):
        run(store.insert([job("one")]))
    with pytest.raises(StoreError, match="not open"):
        run(store.get(["one"]))
    run(store.close())

    run(store.open())
    run(store.open())
    run(store.insert([job("one")]))
    assert [it.id for it in run(store.claim(claim()))] == ["one"]


def test_closing_finishes_what_was_begun(run, store):
    async def insert_and_close():
        calls = [asyncio.ensure_future(store.insert([it])) for it in jobs(50)]
        await asyncio.sleep(0)
        await store.close()
        return await asyncio.gather(*calls)

    assert run(insert_and_close()) == [[it] for it in jobs(50)]
    run(store.open())


def test_a_read_sees_every_write_that_has_returned(run, store):
    async def write_then_read():
        for it in jobs(50):
            await store.insert([it])
            assert (await store.get([it.id], payload=True)) == [it]

    run(write_then_read())
