"""Payloads and results that don't fit into a document, and that nothing of them is left over."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.store.given import NOW, claim, job, running
from shunter.errors import UniqueKeyTaken
from shunter.model import lifecycle
from shunter.model.lifecycle import WorkerSlot
from shunter.store.mongo import blobs
from shunter.store.port import Batch

MEBIBYTE = 1 << 20
LARGEST = 16 * MEBIBYTE  # what the settings allow

BIG = bytes(range(256)) * 1024


@pytest.fixture
def parts(run, store):
    """How many parts the database holds."""
    return lambda: run(store._connection.blobs.count_documents({}))


@pytest.mark.parametrize("size", [LARGEST, 8 * MEBIBYTE + 1])
def test_the_largest_payload_and_result_are_kept_byte_for_byte(run, store, size):
    payload, result = b"p" * (size - 1) + b"!", b"r" * (size - 1) + b"!"
    started = run(running(store, "one", payload=payload))
    assert started.payload == payload

    done = lifecycle.completed(started, 1, result=result, now=NOW)

    assert run(store.replace([done])) == [True]
    [stored] = run(store.get(["one"], payload=True))
    assert stored.payload == payload
    assert stored.result == result


def test_the_largest_payloads_fit_into_one_batch_together(run, store):
    given = [job(f"job-{number}", payload=bytes([number]) * LARGEST) for number in range(2)]

    assert run(store.commit(Batch(now=NOW, inserts=given))).inserted == given

    claimed = [it for _ in given for it in run(store.claim(claim()))]  # one of them fills a claim
    assert [it.payload for it in claimed] == [it.payload for it in given]


def test_many_middling_results_fit_into_one_batch(run, store):
    result = bytes(blobs.MOST_INLINE_BYTES)
    given = [job(f"job-{number}") for number in range(300)]
    run(store.insert(given))
    claimed = run(store.claim(claim(limit=300)))
    started = [lifecycle.started(it, WorkerSlot("w"), now=NOW) for it in claimed]
    assert all(run(store.replace(started)))

    done = [lifecycle.completed(it, 1, result=result, now=NOW) for it in started]

    assert all(run(store.replace(done)))
    assert all(it.result == result for it in run(store.get([it.id for it in given])))


def test_only_what_is_long_stands_apart(run, store, parts):
    run(store.insert([job("short", payload=bytes(blobs.MOST_INLINE_BYTES))]))
    assert parts() == 0

    run(store.insert([job("long", payload=bytes(blobs.MOST_INLINE_BYTES + 1))]))
    assert parts() == 1


def test_a_refused_insert_leaves_no_parts_and_touches_nobody_elses(run, store, parts):
    first = job("one", payload=BIG, unique_key="k")
    run(store.insert([first]))

    [by_id, by_key, again] = run(
        store.insert(
            [
                job("one", payload=BIG + b"other"),
                job("two", payload=BIG + b"other", unique_key="k"),
                job("three", payload=BIG, unique_key="k"),
            ]
        )
    )

    assert isinstance(by_id, UniqueKeyTaken)
    assert isinstance(by_key, UniqueKeyTaken)
    assert again == first
    assert parts() == 1
    assert run(store.get(["one"], payload=True)) == [first]


def test_a_refused_result_leaves_no_parts(run, store, parts):
    started = run(running(store, "one"))
    done = lifecycle.completed(started, 1, result=BIG, now=NOW)

    assert run(store.replace([done, replace(done, result=BIG + b"late")])) == [True, False]

    assert parts() == 1
    assert [it.result for it in run(store.get(["one"]))] == [BIG]


def test_a_payload_survives_every_transition(run, store, parts):
    run(store.insert([job("one", payload=BIG)]))
    for _ in range(3):
        [claimed] = run(store.claim(claim()))
        assert claimed.payload == BIG
        run(store.replace([replace(lifecycle.released(claimed, now=NOW), payload=None)]))

    assert parts() == 1


def test_purge_deletes_the_parts_of_what_it_deletes(run, store, parts):
    started = run(running(store, "old", payload=BIG))
    run(store.replace([lifecycle.completed(started, 1, result=BIG, now=NOW - 1)]))
    run(store.insert([job("new", payload=BIG)]))
    assert parts() == 3

    assert run(store.purge(ended_before=NOW, limit=9)) == 1

    assert parts() == 1
    assert run(store.get(["new"], payload=True)) == [job("new", payload=BIG)]


def test_parts_that_a_crash_left_behind_are_swept_and_those_in_use_are_not(
    run, store, parts, monkeypatch
):
    run(store.insert([job("kept", payload=BIG)]))
    cutter = blobs.Cutter()
    cutter.body("never-inserted", BIG, "name.payload")
    run(cutter.write(store._connection))
    assert parts() == 2

    run(store.purge(ended_before=NOW, limit=9))
    assert parts() == 2, "they may still be on their way"

    monkeypatch.setattr(blobs, "LOOSE_SECONDS", -1.0)
    run(store.purge(ended_before=NOW, limit=9))
    assert parts() == 1
    assert run(store.get(["kept"], payload=True)) == [job("kept", payload=BIG)]
    assert run(store._connection.blobs.count_documents({"loose": {"$exists": True}})) == 0


def test_a_purge_that_was_cut_short_is_finished_by_the_next(run, store, parts, monkeypatch):
    run(store.insert([job("one", payload=BIG, status="x")]))

    async def die(*arguments):
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(blobs, "remove", die)
        with pytest.raises(RuntimeError):
            run(store.purge(ended_before=NOW + 1, limit=9))
    assert parts() == 1

    run(store.purge(ended_before=NOW + 1, limit=9))
    assert parts() == 0


def test_a_job_whose_parts_are_gone_is_gone(run, store):
    run(store.insert([job("one", payload=BIG), job("two")]))
    run(store._connection.blobs.delete_many({}))

    assert run(store.get(["one", "two"], payload=True)) == [None, job("two")]
