"""How SQLite goes about it: what must be cheap touches an index and nothing else."""

from __future__ import annotations

import re

import pytest

from conformance.store.given import NOW, claim, jobs, running
from shunter.model.job import FINAL, Status
from shunter.store.port import JobQuery
from shunter.store.sqlite import edges, lanes, reads, searches, statements, writes


def steps(run, store, text, parameters):
    """The steps of SQLite's plan, each as a line."""

    async def explain():
        return await store.reader.submit(
            lambda connection: connection.execute(
                f"EXPLAIN QUERY PLAN {text}", parameters
            ).fetchall()
        )

    return [row[3] for row in run(explain())]


def on_tables(plan):
    return {step for step in plan if re.search(r"jobs|payloads|workers|edges", step)}


def test_a_claim_reads_the_front_of_the_queue_in_order(run, store):
    one_type = statements.front(1).partition("FROM (")[2].rpartition(") ORDER BY")[0]

    plan = steps(run, store, one_type, ("sum", 10))

    assert on_tables(plan) == {"SEARCH jobs USING INDEX ready (type=?)"}
    assert not any("ORDER BY" in step for step in plan), "the queue is sorted"


@pytest.mark.parametrize("types", [1, 3, 300])
def test_reading_and_claiming_touch_only_the_front_and_rows_by_number(run, store, types):
    read = statements.read_jobs(statements.NUMBERED, "rank, jobs.seq", payload=True)

    for text, parameters in (
        (statements.front(types), (*("sum", 10) * types, 10)),
        (statements.HEADS, ('["sum", "other"]',)),
        (read, ("[1, 2]", -1)),
        (statements.CLAIM_NUMBERED, ("{}", NOW, "[1, 2]")),
    ):
        for step in on_tables(steps(run, store, text, parameters)):
            assert step.startswith(
                ("SEARCH jobs USING INTEGER PRIMARY KEY", "SEARCH payloads USING INTEGER PRIMARY")
            ) or step.endswith("INDEX ready (type=?)"), step


def statements_of_a_claim(run, store, *types):
    """The statements that a claim makes before it takes anything."""
    seen = []

    async def look():
        def front(connection):
            connection.set_trace_callback(seen.append)
            try:
                return writes._front(connection, types, 10)
            finally:
                connection.set_trace_callback(None)

        return await store.reader.submit(front)

    return run(look()), seen


@pytest.mark.parametrize("served", [2, 256])
def test_a_claim_asks_once_whatever_its_worker_does(run, store, served):
    run(store.insert(jobs(3)))
    others = [f"other-{number}" for number in range(served - 1)]

    found, seen = statements_of_a_claim(run, store, *others, "sum")
    nothing, seen_in_vain = statements_of_a_claim(run, store, *others)

    assert (len(found), len(seen)) == (3, 2)
    assert (nothing, len(seen_in_vain)) == ([], 1)
    assert seen[1].count("INDEXED BY ready") == 1, "types without jobs are looked into"


@pytest.mark.parametrize("rows", [1, 64, 256])
def test_replacing_finds_each_job_by_its_id(run, store, rows):
    plan = steps(run, store, statements.replace_jobs(rows), (0, *[None] * 13 * rows))

    assert on_tables(plan) == {"SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"}


@pytest.mark.parametrize("rows", [1, 64, 256])
def test_a_delivery_finds_each_job_by_its_id(run, store, rows):
    plan = steps(run, store, statements.deliver_callbacks(rows), (0, *[None] * 5 * rows))

    assert on_tables(plan) == {"SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"}


@pytest.mark.parametrize(
    ("text", "parameters", "index"),
    [
        (statements.read_jobs(statements.WITH_ID, "jobs.seq"), ("[]", -1), "autoindex_jobs_1"),
        (statements.read_jobs(statements.HELD, "jobs.seq"), ("[]", -1), "held"),
        (statements.read_jobs(statements.DUE, "alarm"), (NOW, 5), "alarms"),
        (statements.read_jobs(statements.CALLBACK_DUE, "alarm"), (NOW, 5), "alarms"),
        (statements.read_jobs("unique_key IN (?, ?)", "jobs.seq"), ("a", "b", -1), "keyed"),
        (statements.NEXT_ALARM, (), "alarms"),
        (statements.read_jobs(statements.DEPENDENTS_DUE, "alarm"), (5,), "alarms"),
        (statements.DOOMED, (NOW, 5), "finished"),
        (statements.ENDED_COUNTS, (*reads.FIRST_ENDED, 5), "COVERING INDEX finished"),
        (statements.LAST_OF_ENDED, (*reads.FIRST_ENDED, 5), "COVERING INDEX finished"),
        (statements.PURGE_EDGES, ("[]",), "standings"),
        (edges.OF_PARENTS, ("[]", 5), "PRIMARY KEY"),
        (edges.OF_PARENT_AFTER, ("a", "b", 5), "PRIMARY KEY"),
        (edges.OF_CHILDREN, ("[]", 5), "standings"),
        (edges.OF_CHILD_AFTER, ("a", "b", 5), "standings"),
        (searches.NEXT_RUN, ("a",), "runs"),
        (searches.OF_RUN, ("a",), "runs"),
        (searches.MORE_OF_RUN, ("a",), "runs"),
        (edges.STANDINGS, ("[]",), "standings (child=? AND outcome=?)"),
    ],
)
def test_lookups_use_their_index_and_scan_nothing(run, store, text, parameters, index):
    plan = on_tables(steps(run, store, text, parameters))

    assert any(index in step for step in plan), plan
    assert not any(step.startswith("SCAN") and "INDEX" not in step for step in plan), plan


def test_counting_the_backlog_touches_no_table(run, store):
    plan = on_tables(steps(run, store, statements.BACKLOG, ()))

    # SQLite does not call these two covering, though it needs no column that is not in them.
    queues = ("INDEX ready", "INDEX lanes", "INDEX parked")
    assert len(plan) == 6
    assert all("COVERING INDEX" in step or step.endswith(queues) for step in plan), plan


@pytest.mark.parametrize("text", [lanes._VIEW, lanes._VIEW_AFTER])
def test_lanes_are_found_by_jumping_from_one_to_the_next(run, store, text):
    plan = on_tables(steps(run, store, text, ("sum", "", 10, "sum ", "sum!", "tenant>")))

    assert plan == {
        "SEARCH jobs USING INDEX ready (type=?)",
        "SEARCH jobs USING INDEX lanes (type=? AND lane>?)",
        *(
            f"SEARCH jobs USING COVERING INDEX {name}s ({name}>? AND {name}<?)"
            for name in ("limit_place", "total_place")
        ),
    }


def test_only_the_fronts_of_lanes_are_read(run, store):
    plan = on_tables(steps(run, store, lanes.FRONTS, ('["a", "b"]', "sum", 3)))

    assert plan == {"SEARCH jobs USING INDEX lanes (type=? AND lane=?)"}


@pytest.mark.parametrize("count", [1, 2, lanes.MOST_MERGED])
def test_lanes_are_merged_without_being_sorted(run, store, count):
    names = [f"tenant={at}" for at in range(count)]

    plan = steps(run, store, lanes.first_of_all(count), ("sum", 10, *names))

    assert on_tables(plan) == {"SEARCH jobs USING INDEX lanes (type=? AND lane=?)"}
    assert not any("TEMP B-TREE" in step for step in plan), plan


def test_alarms_and_purges_come_out_of_their_index_in_order(run, store):
    due = statements.read_jobs(statements.DUE, "alarm")
    owed = statements.read_jobs(statements.CALLBACK_DUE, "alarm")

    for text, parameters in ((due, (NOW, 5)), (owed, (NOW, 5)), (statements.DOOMED, (NOW, 5))):
        plan = steps(run, store, text, parameters)
        assert not any("ORDER BY" in step for step in plan), plan


def test_listing_jobs_in_progress_looks_only_at_those(run, store):
    run(running(store, "busy"))
    where, parameters = statements.matching(JobQuery(status=Status.IN_PROGRESS))
    text = statements.read_jobs(where, "jobs.seq DESC")

    plan = on_tables(steps(run, store, text, (*parameters, 50)))

    assert plan == {
        "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)",
        "SCAN jobs USING COVERING INDEX held",
    }


@pytest.mark.parametrize("status", sorted(FINAL))
@pytest.mark.parametrize("more", [{}, {"type": "sum"}, {"before": "last"}, {"worker_id": "w"}])
def test_listing_ended_jobs_by_status_reads_an_index_newest_first(run, store, status, more):
    where, parameters = statements.matching(JobQuery(status=status, **more))
    text = statements.read_jobs(where, "jobs.seq DESC")

    plan = steps(run, store, text, (*parameters, 50))

    assert any("SEARCH jobs USING INDEX outcomes (status=?" in step for step in plan), plan
    assert not any("ORDER BY" in step for step in plan), plan
    assert not any(step.startswith("SCAN jobs") for step in plan), plan


@pytest.mark.parametrize("before", [None, "last"])
def test_listing_a_namespace_reads_its_index_newest_first_and_sorts_nothing(run, store, before):
    where, parameters = statements.matching(JobQuery(namespace="team", before=before))
    text = statements.read_jobs(where, "jobs.seq DESC")

    plan = steps(run, store, text, (*parameters, 50))

    assert any("SEARCH jobs USING INDEX namespaces" in step for step in plan), plan
    assert not any("ORDER BY" in step for step in plan), plan
    assert not any(step.startswith("SCAN jobs") for step in plan), plan


def test_a_claim_costs_no_more_in_a_long_queue_than_in_a_short_one(run, store):
    def instructions_of_a_claim():
        """How many instructions SQLite's machine executes: a cost that no noise can touch."""
        count = 0

        def tick():
            nonlocal count
            count += 1

        def counted(connection):
            connection.set_progress_handler(tick, 1)
            taken = writes.claim(connection, claim(limit=16))
            connection.set_progress_handler(None, 0)
            return taken

        async def submit():
            return await store.writer.submit(counted)

        assert len(run(submit())) == 16
        return count

    run(store.insert(jobs(100, "short")))
    short = instructions_of_a_claim()
    for part in range(10):
        run(store.insert(jobs(2000, f"long-{part}")))

    assert 1000 < instructions_of_a_claim() <= 1.05 * short
