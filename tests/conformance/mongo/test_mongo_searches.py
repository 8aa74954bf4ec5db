"""How MongoDB searches for people: every query has an index, and reads a bounded part of it."""

from __future__ import annotations

import itertools

import pytest

from conformance.store.given import NOW, ended, job, jobs, running
from shunter.model.job import Status
from shunter.store.search import JobSearch

LOOKED_AT = 200

SEARCHES = {
    "all": JobSearch(most=LOOKED_AT),
    "a rare type": JobSearch(type="rare", most=LOOKED_AT),
    "an error": JobSearch(text="nowhere", most=LOOKED_AT),
    "failed": JobSearch(status=Status.FAILED, most=LOOKED_AT),
    "running": JobSearch(status=Status.IN_PROGRESS, type="rare", most=LOOKED_AT),
    "the queue": JobSearch(status=Status.QUEUED, most=LOOKED_AT),
    "delayed": JobSearch(status=Status.QUEUED, is_delayed=True, most=LOOKED_AT),
    "a key": JobSearch(key="key-7", most=LOOKED_AT),
    "a schedule": JobSearch(key_prefix="schedule/none/", most=LOOKED_AT),
    "until": JobSearch(created_until=NOW + 1, most=LOOKED_AT),
}


@pytest.fixture
def full(run, store):
    run(store.insert(jobs(2000, "queued")))
    run(store.insert([job(f"laned-{n}", lane=f"tenant={n % 9}") for n in range(2000)]))
    run(store.insert([job(f"late-{n}", wait_until=NOW + n) for n in range(2000)]))
    names = (f"key-{n}" for n in itertools.count())
    run(store.insert([job(f"keyed-{n}", unique_key=next(names)) for n in range(2000)]))
    run(ended(store, "done"))
    run(running(store, "busy"))
    return store


def test_no_search_looks_at_more_than_it_may(run, full):
    database = full._connection.database
    run(database.command({"profile": 2}))
    try:
        for name, wanted in SEARCHES.items():
            run(full.search(wanted))
            _check(run, database, name)
        for lane in (None, "tenant=7"):
            last = job("last", created=NOW + 1e6, lane=lane)
            assert run(full.queue_look(last, most=LOOKED_AT, deep=20)).ahead == LOOKED_AT
            _check(run, database, "around a job")
        run(full.depths(most=LOOKED_AT))
        _check(run, database, "depths")
    finally:
        run(database.command({"profile": 0}))
        run(database["system.profile"].drop())


def _check(run, database, name):
    seen = run(database["system.profile"].find({"ns": f"{database.name}.jobs"}).to_list())
    assert seen, name
    for each in seen:
        assert "COLLSCAN" not in each.get("planSummary", ""), (name, each.get("command"))
        assert each.get("docsExamined", 0) <= 2 * LOOKED_AT + 10, (name, each["planSummary"])
        assert each.get("keysExamined", 0) <= 2 * LOOKED_AT + 10, (name, each["planSummary"])
    run(database.command({"profile": 0}))
    run(database["system.profile"].drop())
    run(database.command({"profile": 2}))
