"""Reading: lists, counts, alarms, and jobs held by workers."""

from __future__ import annotations

from msgspec.structs import replace

from conformance.store.given import NOW, claim, claimed, ended, failure, job, jobs, running
from shunter.model import lifecycle
from shunter.model.job import Execution, Status
from shunter.store.port import Backlog, JobQuery
from shunter.store.sqlite import reads


def test_get_answers_in_the_order_asked_with_none_for_the_unknown(run, store):
    [first, second] = given = jobs(2)
    run(store.insert(given))

    answers = run(store.get([second.id, "nobody", first.id, second.id], payload=True))

    assert answers == [second, None, first, second]


def test_get_takes_more_ids_than_one_statement_would(run, store):
    given = jobs(700)
    run(store.insert(given))

    assert run(store.get([it.id for it in given], payload=True)) == given


def test_find_lists_the_newest_first_without_payload_and_result(run, store):
    done = run(ended(store, "done"))
    run(store.insert([job("new")]))

    found = run(store.find(JobQuery()))

    assert found == [job("new", payload=None), replace(done, payload=None, result=None)]


def test_find_goes_on_after_the_last_one_seen(run, store):
    given = jobs(25)
    run(store.insert(given))

    pages, before = [], None
    while page := run(store.find(JobQuery(limit=10, before=before))):
        pages.append([it.id for it in page])
        before = page[-1].id

    assert [len(page) for page in pages] == [10, 10, 5]
    assert [name for page in pages for name in page] == [it.id for it in reversed(given)]


def test_find_gives_as_many_as_were_asked_for(run, store):
    run(store.insert(jobs(600)))

    assert len(run(store.find(JobQuery(limit=599)))) == 599
    assert len(run(store.find(JobQuery(limit=5000)))) == 600
    assert run(store.find(JobQuery(limit=0))) == []


def test_find_after_a_job_that_is_gone_lists_nothing(run, store):
    run(store.insert(jobs(3)))

    assert run(store.find(JobQuery(before="purged"))) == []


def test_find_filters_by_status_type_and_worker(run, store):
    run(ended(store, "done", on="w-1"))
    run(running(store, "busy", on="w-1"))
    run(running(store, "elsewhere", on="w-2"))
    run(store.insert([job("claimed")]))
    run(store.claim(claim()))
    run(store.insert([job("queued"), job("other", type="product")]))

    def ids(**query):
        return [it.id for it in run(store.find(JobQuery(**query)))]

    assert ids(status=Status.QUEUED) == ["other", "queued"]
    assert ids(status=Status.DISPATCHING) == ["claimed"]
    assert ids(status=Status.IN_PROGRESS) == ["elsewhere", "busy"]
    assert ids(status=Status.COMPLETED) == ["done"]
    assert ids(type="product") == ["other"]
    assert ids(worker_id="w-1") == ["busy", "done"]
    assert ids(worker_id="w-1", status=Status.IN_PROGRESS) == ["busy"]
    assert ids(status=Status.IN_PROGRESS, before="elsewhere") == ["busy"]
    assert ids(status=Status.IN_PROGRESS, type="product") == []


def test_held_by_gives_jobs_in_progress_and_no_others(run, store):
    busy = run(running(store, "busy", on="w-1"))
    also = run(running(store, "also", on="w-2"))
    run(running(store, "elsewhere", on="w-3"))
    run(ended(store, "done", on="w-1"))

    assert run(store.held_by(["w-1", "w-2", "nobody"])) == [
        replace(busy, payload=None),
        replace(also, payload=None),
    ]


def test_an_alarm_is_set_for_waiting_claimed_and_running_jobs(run, store):
    run(store.insert([job("waiting", type="t", wait_until=NOW + 30.0)]))
    run(running(store, "running", execution=Execution(timeout=20.0)))
    run(store.insert([job("claimed")]))
    run(store.claim(claim()))
    run(store.insert([job("queued")]))
    run(running(store, "endless"))

    def due(now, limit=10):
        return [it.id for it in run(store.alarms(now=now, limit=limit))]

    assert run(store.next_alarm()) == NOW + 5
    assert due(NOW + 4.999) == []
    assert due(NOW + 5) == ["claimed"]
    assert due(NOW + 1000) == ["claimed", "running", "waiting"]
    assert due(NOW + 1000, limit=2) == ["claimed", "running"]
    assert due(NOW + 1000, limit=0) == []


def test_jobs_with_an_alarm_come_as_they_stand_without_payload(run, store):
    run(store.insert([job("claimed")]))
    [claimed] = run(store.claim(claim()))

    assert run(store.alarms(now=NOW + 5, limit=9)) == [replace(claimed, payload=None)]


def test_a_retried_job_waits_under_an_alarm(run, store):
    started = run(running(store, "one"))
    retry = lifecycle.Retry(limit=1, delay=8.0)
    waiting = lifecycle.failed(started, 1, failure(), now=NOW, jitter=0.0, retry=retry)

    run(store.replace([waiting]))

    assert run(store.next_alarm()) == NOW + 8
    assert run(store.held_by(["w-1"])) == []


def test_no_alarm_is_set_in_an_empty_store(run, store):
    assert run(store.next_alarm()) is None
    assert run(store.alarms(now=NOW, limit=5)) == []


def test_the_backlog_counts_every_job_by_type_and_status(run, store):
    run(store.insert(jobs(5)))
    run(store.insert([job("waiting", wait_until=NOW + 9)]))
    run(store.claim(claim(limit=2)))
    run(running(store, "busy"))
    run(ended(store, "done"))
    over = [job(f"over-{status}", type="over", status=status) for status in Status]
    run(store.insert(over))

    assert run(store.backlog()) == [
        *(Backlog(type="over", status=status, count=1) for status in sorted(Status)),
        Backlog(type="sum", status=Status.DISPATCHING, count=2),
        Backlog(type="sum", status=Status.QUEUED, count=4),
        Backlog(type="type-of-busy", status=Status.IN_PROGRESS, count=1),
        Backlog(type="type-of-done", status=Status.COMPLETED, count=1),
    ]


def test_what_has_ended_is_counted_apart_from_what_has_not(run, store, monkeypatch):
    monkeypatch.setattr(reads, "COUNTED_AT_ONCE", 3)  # of SQLite: several stretches
    run(store.insert([job(f"{at}", status=status) for at, status in enumerate(list(Status) * 4)]))
    run(ended(store, "done"))

    apart = [run(store.backlog(is_ended=it)) for it in (True, False)]

    assert {it.status.is_final for it in apart[0]} == {True}
    assert {it.status.is_final for it in apart[1]} == {False}
    assert [*apart[0], *apart[1]] == sorted(
        run(store.backlog()), key=lambda it: (not it.status.is_final, it.type, it.status)
    )


def test_the_oldest_of_each_type_that_could_be_claimed_is_told(run, store):
    waiting = [job(f"w-{n}", created=NOW + n, priority=n) for n in range(3)]
    later = job("later", type="later", created=NOW - 9, wait_until=NOW + 99)
    other = job("other", type="other", created=NOW - 5.5)
    run(store.insert([*waiting, later, other]))
    run(running(store, "busy", created=NOW - 100))

    assert run(store.oldest()) == {"sum": NOW, "other": NOW - 5.5}

    run(store.claim(claim("other")))
    assert run(store.oldest()) == {"sum": NOW}


def test_jobs_that_waited_too_long_are_told_the_earliest_first_and_can_be_claimed(run, store):
    late = [job(f"late-{n}", place_by=NOW - n, place_within=5.0) for n in range(3)]
    resting = job("resting", type="other", place_by=NOW - 9, wait_until=NOW + 9)
    run(store.insert([*late, resting, job("soon", place_by=NOW + 1), job("patient")]))

    found = run(store.overdue(now=NOW, limit=10))

    assert [it.id for it in found] == ["resting", "late-2", "late-1", "late-0"]
    assert found[1] == replace(late[2], payload=None)
    assert [it.id for it in run(store.overdue(now=NOW, limit=1))] == ["resting"]
    assert run(store.alarms(now=NOW, limit=10)) == []
    assert len(run(store.claim(claim("sum", limit=3)))) == 3
    assert [it.id for it in run(store.overdue(now=NOW, limit=10))] == ["resting"]


def test_a_job_that_is_back_in_the_queue_is_overdue_again(run, store):
    taken = run(claimed(store, "one", place_by=NOW - 1, place_within=5.0))
    assert run(store.overdue(now=NOW, limit=10)) == []

    assert run(store.replace([lifecycle.released(taken, now=NOW)])) == [True]

    assert [it.id for it in run(store.overdue(now=NOW, limit=10))] == ["one"]
