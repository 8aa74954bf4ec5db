"""Callbacks of ended jobs: their state changes, nothing else does, and nobody waits for them."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, ended, job, running
from shunter.model import callback, lifecycle
from shunter.model.job import FINAL, Callback, Failure, Status
from shunter.model.retry import Retry
from shunter.store.port import Backlog, Batch, JobQuery

HOOK = Callback("http://127.0.0.1/done?a=1&b=%22", error="")
WAITS = Retry(delay=8.0, jitter=0.0)


def owing(run, store, name, *, at=NOW, **changes):
    """A job that completed and has yet to call back."""
    return run(ended(store, name, at=at, callback=HOOK, **changes))


def deliver(run, store, *jobs):
    return run(store.commit(Batch(now=NOW, deliveries=jobs))).delivered


def failed_call(job_, error="status 500"):
    return callback.called(
        job_, job_.callback.tries, error, now=NOW, jitter=0.0, max_tries=3, waits=WAITS
    )


def succeeded(job_):
    return callback.called(
        job_, job_.callback.tries, None, now=NOW, jitter=0.0, max_tries=3, waits=WAITS
    )


def stored(run, store, name):
    [found] = run(store.get([name], payload=True))
    return found


def test_a_job_that_ends_and_its_callback_are_one_write(run, store):
    done = owing(run, store, "one", at=NOW + 3)

    assert done.callback.due == NOW + 3
    assert stored(run, store, "one") == done
    assert run(store.due_callbacks(now=NOW + 3, limit=9)) == [
        replace(done, payload=None, result=None)
    ]


def test_each_step_of_a_callback_is_kept(run, store):
    done = owing(run, store, "one")

    mine = callback.calling(done, now=NOW, seconds=10)
    assert deliver(run, store, mine) == [True]
    assert stored(run, store, "one") == mine
    again = failed_call(mine, 'found "\u0000\U0001f682\\" {}')
    assert deliver(run, store, again) == [True]
    assert stored(run, store, "one") == again
    over = succeeded(callback.calling(again, now=NOW + 99, seconds=10))
    assert deliver(run, store, replace(over, revision=again.revision + 1)) == [True]

    assert stored(run, store, "one") == replace(over, revision=again.revision + 1)
    assert stored(run, store, "one").callback.delivered


def test_nothing_of_an_ended_job_changes_but_its_callback(run, store):
    done = owing(run, store, "one", priority=3, workflow="w", execution=replace(job("x").execution))
    mine = callback.calling(done, now=NOW, seconds=10)

    other = replace(
        mine,
        status=Status.FAILED,
        type="other",
        result=b"other",
        payload=b"other",
        log="other",
        error=Failure(lifecycle.ErrorKind.LOST, "other"),
        updated=NOW + 99,
        workflow=None,
    )

    assert deliver(run, store, other) == [True]
    assert stored(run, store, "one") == mine
    assert run(store.find(JobQuery(type=done.type))) == [replace(mine, payload=None, result=None)]


def test_what_does_not_fit_a_document_outlives_its_callback(run, store):
    big = bytes(200_000)
    started = run(running(store, "one", payload=big, callback=HOOK))
    done = lifecycle.completed(started, 1, result=big, now=NOW)
    run(store.replace([done]))

    assert deliver(run, store, callback.calling(done, now=NOW, seconds=1)) == [True]

    after = stored(run, store, "one")
    assert (after.payload, after.result, after.callback.tries) == (big, big, 1)


@pytest.mark.parametrize("offset", [-2, -1, 1, 7])
def test_any_other_revision_is_refused(run, store, offset):
    done = owing(run, store, "one")
    mine = callback.calling(done, now=NOW, seconds=10)

    assert deliver(run, store, replace(mine, revision=mine.revision + offset)) == [False]
    assert stored(run, store, "one") == done


@pytest.mark.parametrize("status", [status for status in Status if status not in FINAL])
def test_the_callback_of_a_job_that_is_under_way_is_left_alone(run, store, status):
    given = job("one", status=status, callback=HOOK)
    run(store.insert([given]))

    early = replace(given, revision=1, callback=replace(HOOK, delivered=True))

    assert deliver(run, store, early) == [False]
    assert stored(run, store, "one") == given


def test_an_unknown_job_is_refused(run, store):
    unknown = job("nobody", status=Status.COMPLETED, revision=1, callback=HOOK)

    assert deliver(run, store, unknown) == [False]


def test_a_delivery_does_not_open_an_ended_job_to_other_writes(run, store):
    done = owing(run, store, "one")
    mine = callback.calling(done, now=NOW, seconds=10)
    assert deliver(run, store, mine) == [True]

    assert run(store.replace([replace(mine, revision=mine.revision + 1, log="late")])) == [False]
    assert stored(run, store, "one") == mine


def test_each_of_a_batch_is_judged_by_itself_and_two_steps_of_one_fit_in(run, store):
    first, second, third = (owing(run, store, name) for name in ("one", "two", "three"))
    theirs = callback.calling(second, now=NOW, seconds=10)
    assert deliver(run, store, theirs) == [True]
    one = callback.calling(first, now=NOW, seconds=10)
    two = callback.calling(second, now=NOW, seconds=99)
    three = callback.calling(third, now=NOW, seconds=10)

    assert deliver(run, store, one, two, three) == [True, False, True]
    assert deliver(run, store, failed_call(three), two) == [True, False]
    assert deliver(run, store, succeeded(one), succeeded(one)) == [True, False]
    assert stored(run, store, "two") == theirs


def test_deliveries_share_a_batch_with_everything_else(run, store):
    first = owing(run, store, "one")
    started = run(running(store, "two", callback=HOOK))
    done = lifecycle.completed(started, 1, result=b"\x01", now=NOW)
    batch = Batch(
        now=NOW,
        replacements=[done],
        deliveries=[
            callback.calling(first, now=NOW, seconds=1),
            callback.calling(done, now=NOW, seconds=1),
            job("new", status=Status.COMPLETED, revision=1, callback=HOOK),
        ],
        inserts=[job("new")],
        claims=[claim()],
    )

    committed = run(store.commit(batch))

    assert (committed.replaced, committed.delivered) == ([True], [True, True, False])
    assert [[it.id for it in part] for part in committed.claimed] == [["new"]]
    assert stored(run, store, "two") == batch.deliveries[1]


def test_of_dispatchers_that_want_the_same_call_exactly_one_gets_it(run, store):
    done = owing(run, store, "one")
    rivals = [callback.calling(done, now=NOW, seconds=seconds) for seconds in range(1, 21)]

    async def all_at_once():
        batches = [Batch(now=NOW, deliveries=[rival]) for rival in rivals]
        return await asyncio.gather(*(store.commit(batch) for batch in batches))

    answers = [committed.delivered for committed in run(all_at_once())]
    assert answers.count([True]) == 1
    assert stored(run, store, "one") == rivals[answers.index([True])]


def test_callbacks_come_due_in_their_order_and_apart_from_alarms(run, store):
    for number in range(5):
        owing(run, store, f"owes-{number}", at=NOW + 4 - number)
    run(store.insert([job("waiting", type="t", wait_until=NOW + 2)]))
    run(ended(store, "done"))

    def due(now, limit=10):
        return [it.id for it in run(store.due_callbacks(now=now, limit=limit))]

    assert due(NOW - 1) == []
    assert due(NOW + 1) == ["owes-4", "owes-3"]
    assert due(NOW + 9, limit=3) == ["owes-4", "owes-3", "owes-2"]
    assert due(NOW + 9, limit=0) == []
    assert [it.id for it in run(store.alarms(now=NOW + 9, limit=1))] == ["waiting"]
    assert run(store.next_alarm()) == NOW


def test_a_callback_is_due_when_it_says_and_not_once_it_is_over(run, store):
    done = owing(run, store, "one")
    mine = callback.calling(done, now=NOW, seconds=10)
    deliver(run, store, mine)

    assert run(store.next_alarm()) == NOW + 10 + callback.MARGIN_SECONDS
    assert run(store.due_callbacks(now=NOW + 14, limit=9)) == []
    deliver(run, store, failed_call(mine))
    assert run(store.next_alarm()) == NOW + 8
    [again] = run(store.due_callbacks(now=NOW + 8, limit=9))
    last = succeeded(callback.calling(again, now=NOW + 8, seconds=10))
    deliver(run, store, replace(last, revision=again.revision + 1))

    assert run(store.next_alarm()) is None
    assert run(store.due_callbacks(now=NOW + 999, limit=9)) == []


def test_jobs_that_owe_a_callback_are_counted_once(run, store):
    owing(run, store, "one")
    deliver(run, store, callback.calling(owing(run, store, "two"), now=NOW, seconds=10))

    assert run(store.backlog()) == [
        Backlog(type="type-of-one", status=Status.COMPLETED, count=1),
        Backlog(type="type-of-two", status=Status.COMPLETED, count=1),
    ]


def test_a_job_is_not_purged_before_it_has_called_back_or_given_up(run, store):
    owing(run, store, "owes", at=NOW - 20)
    delivered = owing(run, store, "delivered", at=NOW - 10)
    hopeless = owing(run, store, "hopeless", at=NOW - 9)
    claimed = [callback.calling(it, now=NOW, seconds=10) for it in (delivered, hopeless)]
    deliver(run, store, *claimed)
    deliver(run, store, succeeded(claimed[0]), callback.given_up(claimed[1]))

    assert run(store.purge(ended_before=NOW, limit=2)) == 2

    assert [it.id for it in run(store.find(JobQuery()))] == ["owes"]
    assert stored(run, store, "owes").payload is not None
