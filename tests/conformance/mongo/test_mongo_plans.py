"""How MongoDB goes about it: what must be cheap reads an index, and no job that is not wanted."""

from __future__ import annotations

import pytest

from conformance.store.given import NOW, claim, ended, job, jobs, running
from shunter.model.job import Execution, Status
from shunter.model.job_limits import JobLimits, Limit
from shunter.store.mongo import front, lanes, reads
from shunter.store.mongo.front import ORDER, waiting
from shunter.store.port import JobQuery


def explained(run, store, **command):
    """What the server did to answer a query or a pipeline on the jobs."""
    database = store._connection.database
    find = {"find": "jobs", **command} if "filter" in command else {"aggregate": "jobs", **command}
    answer = run(database.command({"explain": find, "verbosity": "executionStats"}))
    if "stages" in answer:
        answer = answer["stages"][0]["$cursor"]
    return answer["executionStats"]


def stages(stats):
    """The names of a plan's stages, with the index of those that have one."""
    found, todo = [], [stats["executionStages"]]
    while todo:
        stage = todo.pop()
        found.append(stage.get("indexName") or stage["stage"])
        todo += [
            part
            for key, value in stage.items()
            if key.endswith(("Stage", "Stages", "Plan"))
            for part in (value if isinstance(value, list) else [value])
            if isinstance(part, dict) and "stage" in part
        ]
    return found


@pytest.fixture
def full(run, store):
    """A store with a long queue of one type, a short one of another, and some of all else."""
    run(store.insert(jobs(2000, "long", type="long")))
    run(store.insert(jobs(20, "short")))
    run(running(store, "busy", execution=Execution(timeout=5.0)))
    run(ended(store, "done"))
    run(store.insert([job("late", wait_until=NOW + 1), job("keyed", unique_key="k")]))
    run(store.insert(jobs(2000, "laned", type="laned", lane="tenant=a")))
    run(store.insert([job("parked", status=Status.WAITING)]))
    run(store.insert([job("laned", type="laned", lane="tenant=b")]))
    return store


@pytest.mark.parametrize("types", [1, 2, 100])
def test_a_claim_reads_the_front_of_each_queue_and_sorts_nothing(run, full, types):
    names = ["sum", *(f"other-{number}" for number in range(types - 1))]
    query = {"filter": waiting(names), "sort": dict(ORDER), "limit": 10}

    stats = explained(run, full, **query)

    assert set(stages(stats)) <= {"ready", "FETCH", "LIMIT", "SORT_MERGE", "PROJECTION_SIMPLE"}
    assert stats["totalDocsExamined"] <= 10 + types


def test_lanes_are_found_by_jumping_from_one_to_the_next(run, full):
    stats = explained(run, full, pipeline=lanes.heads("laned", {"$gte": ""}, 256), cursor={})

    assert "laned" in stages(stats)
    assert stats["totalKeysExamined"] <= 10
    assert stats["totalDocsExamined"] <= 10


def test_whether_jobs_are_in_their_lanes_is_asked_of_indexes_alone(run, full):
    limits = JobLimits(Limit(5, by="tenant"))

    stats = explained(run, full, filter=lanes.unsorted("laned", limits), limit=100)

    assert {"ready", "laned"} <= set(stages(stats))
    assert stats["totalDocsExamined"] == 0
    assert stats["totalKeysExamined"] <= 3


def test_of_many_types_those_with_jobs_are_found_by_one_look(run, full, monkeypatch):
    looked = []
    first = front._first
    monkeypatch.setattr(
        front,
        "_first",
        lambda jobs, types, *rest, **how: looked.append(types) or first(jobs, types, *rest, **how),
    )
    names = ["sum", "long", *(f"other-{number}" for number in range(254))]

    found = run(front.look(full._connection.jobs, names, 10, skip=0, below=None))
    stats = explained(run, full, pipeline=front.heads_of(names, None), cursor={})

    assert looked == [["sum", "long"]]
    assert {document["type"] for document in found} == {"sum", "long"}
    assert "DISTINCT_SCAN" in str(stats)
    assert stats["totalKeysExamined"] <= 2 * len(names)


def test_a_long_queue_costs_a_claim_no_more_than_a_short_one(run, full):
    query = {"sort": dict(ORDER), "limit": 10}
    short = explained(run, full, filter=waiting(["sum"]), **query)
    long = explained(run, full, filter=waiting(["long"]), **query)
    both = explained(run, full, filter=waiting(["long", "sum"]), **query)

    assert short["totalKeysExamined"] == long["totalKeysExamined"] <= 11
    assert both["totalKeysExamined"] <= 13


def test_taking_and_replacing_find_each_job_by_its_id(run, full):
    def plan(statement):
        database = full._connection.database
        explain = {"explain": {"update": "jobs", "updates": [statement]}}
        return str(run(database.command(explain))["queryPlanner"]["winningPlan"])

    ids = ["short-1", "busy"]
    taking = {"_id": {"$in": ids}, "ready": {"$gte": 0}}
    replacing = {"_id": {"$in": ids}, "status": {"$in": ["q", "d", "i"]}}

    for query in (taking, replacing):
        winning = plan({"q": query, "u": {"$set": {"log": ""}}, "multi": True})
        assert "'indexName': '_id_'" in winning
        assert "COLLSCAN" not in winning


@pytest.mark.parametrize(
    ("query", "order", "index"),
    [
        ({"alarm": {"$lte": NOW + 9}, "status": {"$in": ["q", "d", "i"]}}, "alarm", "alarm"),
        ({"alarm": {"$lte": NOW + 9}, "status": {"$in": ["c", "f", "x"]}}, "alarm", "alarm"),
        ({"alarm": {"$gte": reads.EVER}}, "alarm", "alarm"),
        ({"ended": {"$lt": NOW + 9}, "alarm": {"$exists": False}}, "ended", "ended"),
        ({"unique_key": {"$in": ["k", "l"]}}, None, "named_key"),
        ({"after.parents": {"$in": ["done", "busy"]}}, None, "after"),
        ({"after.parents": "busy", "_id": {"$gt": "a"}}, "_id", "after"),
        ({"held": True, "execution.worker_id": {"$in": ["w-1"]}, "status": "i"}, None, "held"),
        ({}, "seq", "seq"),
    ],
)
def test_lookups_use_their_index_and_sort_nothing(run, full, query, order, index):
    extra = {} if order is None else {"sort": {order: 1}}

    stats = explained(run, full, filter=query, limit=5, **extra)

    assert index in stages(stats)
    assert not {"COLLSCAN", "SORT"} & set(stages(stats))
    assert stats["totalDocsExamined"] <= 5


@pytest.mark.parametrize("place", range(len(reads.COUNTED)))
def test_counting_the_backlog_reads_no_document(run, full, place):
    stats = explained(run, full, pipeline=reads.counting(place), cursor={})

    assert stats["totalDocsExamined"] == 0
    assert stats["totalKeysExamined"] >= 1
    assert "COLLSCAN" not in stages(stats)


def test_listing_jobs_in_progress_looks_only_at_those(run, full):
    query = {"status": Status.IN_PROGRESS.value, "held": True}

    stats = explained(run, full, filter=query, sort={"seq": -1}, limit=50)

    assert stats["totalDocsExamined"] <= 2


def test_a_claim_of_a_thousand_types_gets_the_first_of_all(run, full):
    names = [f"other-{number}" for number in range(998)]
    taken = run(full.claim(claim("long", *names, "sum", limit=4)))

    assert [it.id for it in taken] == ["long-0", "short-0", "keyed", "long-1"]


def test_listing_a_namespace_reads_no_job_of_another(run, full):
    run(full.insert(jobs(5, "theirs", namespace="team")))
    run(full.insert(jobs(50, "mixed")))
    query = {"filter": {"namespace": "team"}, "sort": {"seq": -1}, "limit": 10}

    stats = explained(run, full, **query)

    assert set(stages(stats)) <= {"namespace", "FETCH", "LIMIT"}
    assert stats["totalDocsExamined"] == 5


@pytest.mark.parametrize("more", [{}, {"type": "sum"}])
def test_listing_ended_jobs_by_status_reads_only_those_newest_first(run, full, monkeypatch, more):
    run(ended(full, "done-2"))
    asked = []

    async def note(connection, wanted, projection, **how):
        asked.append(wanted)
        return []

    monkeypatch.setattr(reads, "_jobs", note)
    run(full.find(JobQuery(status=Status.COMPLETED, **more)))
    stats = explained(run, full, filter=asked[0], sort={"seq": -1}, limit=10)

    assert set(stages(stats)) <= {"outcome", "FETCH", "LIMIT"}
    assert stats["totalDocsExamined"] == 2
