"""Inserting jobs: what is stored, and what happens where an id or a key is taken."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, ended, job, jobs
from shunter.errors import UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.job import (
    Callback,
    Effects,
    Execution,
    PastAttempt,
    Progress,
    ReplyTo,
    Status,
)
from shunter.model.lifecycle import WorkerSlot
from shunter.model.retry import Retry
from shunter.model.unique import Unique


def test_a_job_comes_back_as_it_was_given(run, store):
    given = job(
        "full",
        priority=3,
        workflow="nightly",
        run="r-7",
        execution=Execution(timeout=2.5),
        callback=Callback("http://127.0.0.1/done"),
        not_before=NOW + 1 / 3,
        wait_until=NOW + 1 / 3,
        unique_key="a 'key' with ünïcode and \"quotes\"",
        retry=Retry(3, 0.1, on=("ValueError",), never=("a.B",), on_timeout=True),
        error=lifecycle.Failure(lifecycle.ErrorKind.LOST, "öops\n\x00"),
        progress=Progress(0.1, None, NOW),
        reply_to=ReplyTo("zmq", b"\x00\xff\x80", "d-1"),
        losses=1,
        failures=2,
        snoozes=3,
        replacements=4,
        effects=Effects.AT_MOST_ONCE,
        unique=Unique("k", 1 / 3, "queued", "replace"),
        cancel_requested=True,
        log="line one\nline two ☃\n",
        history=(PastAttempt(1, "w", NOW, NOW + 0.1, "lost", "gone"),),
    )

    assert run(store.insert([given])) == [given]

    assert run(store.get(["full"], payload=True)) == [given]
    assert run(store.get(["full"])) == [replace(given, payload=None)]


def test_a_job_may_be_inserted_as_already_in_progress(run, store):
    claimed = lifecycle.claimed(job("fast"), dispatcher_id="d-1", now=NOW)
    started = lifecycle.started(claimed, WorkerSlot("w-1"), now=NOW)

    run(store.insert([started]))

    assert run(store.claim(claim())) == []
    assert run(store.held_by(["w-1"])) == [replace(started, payload=None)]
    done = lifecycle.completed(started, 1, result=b"", now=NOW + 1)
    assert run(store.replace([done])) == [True]


def test_a_job_inserted_as_dispatching_keeps_its_own_times(run, store):
    claimed = lifecycle.claimed(job("fast"), dispatcher_id="d-1", now=NOW + 1)
    odd = replace(claimed, updated=NOW + 2)

    run(store.insert([odd]))

    assert run(store.get(["fast"], payload=True)) == [odd]


def test_payloads_of_any_size_are_kept_byte_for_byte(run, store):
    bodies = [b"", b"\x00", bytes(range(256)) * 16, b"x" * 4097, bytes(range(256)) * 12_000]
    given = [replace(it, payload=body) for it, body in zip(jobs(5), bodies, strict=True)]

    run(store.insert(given))

    assert [it.payload for it in run(store.get([it.id for it in given], payload=True))] == bodies
    assert [it.payload for it in run(store.claim(claim()))] == bodies


def test_results_of_any_size_are_kept_byte_for_byte(run, store):
    bodies = [b"", b"\x00", b"x" * 4097, bytes(range(256)) * 12_000]
    run(store.insert(jobs(4)))
    claimed = run(store.claim(claim()))
    started = [lifecycle.started(it, WorkerSlot("w"), now=NOW) for it in claimed]
    run(store.replace(started))

    done = [
        lifecycle.completed(it, 1, result=body, now=NOW)
        for it, body in zip(started, bodies, strict=True)
    ]
    run(store.replace(done))

    assert [it.result for it in run(store.get([it.id for it in done]))] == bodies


def test_the_same_job_again_is_the_job_as_it_stands_now(run, store):
    given = job("again")
    run(store.insert([given]))
    [claimed] = run(store.claim(claim()))

    assert run(store.insert([given])) == [claimed]

    assert run(store.claim(claim())) == []


def test_an_id_with_other_contents_is_refused(run, store):
    run(store.insert([job("taken")]))

    [other_payload, other_type] = run(
        store.insert([job("taken", payload=b"\xc0"), job("taken", type="product")])
    )

    for refusal in (other_payload, other_type):
        assert isinstance(refusal, UniqueKeyTaken)
        assert (refusal.job_id, refusal.field, refusal.holder) == ("taken", "id", "taken")
    assert run(store.get(["taken"], payload=True)) == [job("taken")]


def test_a_unique_key_with_the_same_contents_gives_the_earlier_job(run, store):
    first = job("first", unique_key="nightly")
    run(store.insert([first]))

    assert run(store.insert([job("second", unique_key="nightly")])) == [first]

    assert run(store.get(["second"])) == [None]


def test_a_unique_key_with_other_contents_is_refused(run, store):
    run(store.insert([job("first", unique_key="nightly")]))

    [refusal] = run(store.insert([job("second", unique_key="nightly", payload=b"\xc0")]))

    assert isinstance(refusal, UniqueKeyTaken)
    assert (refusal.job_id, refusal.field) == ("second", "unique_key")
    assert (refusal.key, refusal.holder) == ("nightly", "first")
    assert run(store.get(["second"])) == [None]


@pytest.mark.parametrize("key", ["", "\x00", "a\x00b", "☃ '\"\\%s", "k" * 10_000])
def test_a_unique_key_may_be_any_text(run, store, key):
    first = job("first", unique_key=key)
    run(store.insert([first, job("other", unique_key="a")]))

    assert run(store.insert([job("second", unique_key=key)])) == [first]
    [refusal] = run(store.insert([job("third", unique_key=key, payload=b"")]))
    assert (refusal.key, refusal.holder) == (key, "first")


def test_a_unique_key_stays_taken_when_its_job_has_ended(run, store):
    done = run(ended(store, "first", unique_key="nightly"))
    same = job("second", unique_key="nightly", type=done.type)

    [answer] = run(store.insert([same]))

    assert (answer.id, answer.status, answer.result) == ("first", Status.COMPLETED, done.result)


def test_equal_keys_and_ids_in_one_batch_count_once(run, store):
    first = job("first", unique_key="k")
    batch = [
        first,
        job("second", unique_key="k"),
        job("third", unique_key="k", payload=b"\xc0"),
        first,
        job("first", payload=b"\xc0"),
        job("free"),
    ]

    answers = run(store.insert(batch))

    assert [answers[0], answers[1], answers[3], answers[5]] == [first, first, first, batch[5]]
    assert [(it.job_id, it.field) for it in (answers[2], answers[4])] == [
        ("third", "unique_key"),
        ("first", "id"),
    ]
    assert [it.id for it in run(store.claim(claim()))] == ["first", "free"]


def test_of_two_with_one_id_the_one_whose_key_is_free_gets_in(run, store):
    run(store.insert([job("holder", unique_key="k", payload=b"\xc0")]))
    batch = [job("twin", unique_key="k"), job("twin", unique_key="free", payload=b"\x01")]

    answers = run(store.insert(batch))

    assert isinstance(answers[0], UniqueKeyTaken)
    assert answers[1] == batch[1]
    assert run(store.get(["twin"], payload=True)) == [batch[1]]


def test_a_big_batch_with_conflicts_in_it_is_answered_in_order(run, store):
    run(store.insert(jobs(600, type="old")[::7]))

    answers = run(store.insert(jobs(600)))

    for number, (given, answer) in enumerate(zip(jobs(600), answers, strict=True)):
        if number % 7:
            assert answer == given
        else:
            assert isinstance(answer, UniqueKeyTaken)
            assert answer.job_id == given.id
    claimed = run(store.claim(claim(limit=1000)))
    assert [it.id for it in claimed] == [f"job-{number}" for number in range(600) if number % 7]


def test_empty_batches_are_fine(run, store):
    assert run(store.insert([])) == []
    assert run(store.replace([])) == []
    assert run(store.get([])) == []
    assert run(store.held_by([])) == []
    assert run(store.workers([])) == []
    assert run(store.claim(claim(limit=0))) == []
    assert run(store.purge(ended_before=NOW, limit=0)) == 0
    run(store.put_workers([]))
    run(store.renew([], now=NOW))
    run(store.remove_workers([]))
