"""Jobs and workers as rows, and back."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from conformance.store.given import NOW, job, worker
from shunter.model import lifecycle
from shunter.model.job import Dispatch, Status
from shunter.store.sqlite.rows import as_json, inserted, jobs_in, registered, replaced, workers_in

DOCUMENT = 10  # where it stands among the parameters


def no_bytes(column, seqs):
    raise AssertionError("nothing is to be fetched")


def row(given, *, revision=None, claim=None, result="null", payload="null"):
    document = inserted(given)[DOCUMENT]
    number = given.revision if revision is None else revision
    return f"[[7,{number},{as_json(claim)},{document},{result},{payload}]]"


def test_a_document_is_the_record_without_payload_and_result():
    given = job("one", result=b"\x01", priority=2)

    document = msgspec.json.decode(inserted(given)[DOCUMENT], type=lifecycle.Job)

    assert document == replace(given, payload=None, result=None)


def test_a_row_without_a_claim_is_its_document():
    given = job("one", payload=None)

    assert jobs_in(row(given), bytes_apart=no_bytes) == [given]


def test_a_claim_beside_the_document_is_what_the_lifecycle_makes_of_it():
    given = job("one", payload=None)
    claimed = lifecycle.claimed(given, dispatcher_id="d", now=NOW + 1)

    text = row(given, revision=1, claim=claimed.dispatcher)

    assert jobs_in(text, bytes_apart=no_bytes) == [claimed]


def test_a_claim_made_just_now_counts_one_revision_more():
    given = job("one", payload=None, revision=3)
    made = Dispatch("d", NOW, NOW + 5)

    [read] = jobs_in(row(given), claim=made, bytes_apart=no_bytes)

    assert (read.status, read.revision, read.dispatcher) == (Status.DISPATCHING, 4, made)


def test_small_bytes_travel_in_the_text():
    [read] = jobs_in(row(job("one"), payload='"00FF"', result='""'), bytes_apart=no_bytes)

    assert (read.payload, read.result) == (b"\x00\xff", b"")


def test_big_bytes_are_fetched_apart():
    asked = []

    def bytes_apart(column, seqs):
        asked.append((column, seqs))
        return [(7, column.encode())]

    [read] = jobs_in(row(job("one"), payload="5000", result="5001"), bytes_apart=bytes_apart)

    assert asked == [("payload", [7]), ("result", [7])]
    assert (read.payload, read.result) == (b"payload", b"result")


def test_only_a_final_job_has_ended():
    columns = {status: replaced(job("one", status=status))[5] for status in Status}

    assert {status for status, ended in columns.items() if ended is not None} == {
        status for status in Status if status.is_final
    }


def test_no_rows_are_no_text():
    assert jobs_in(None, bytes_apart=no_bytes) == []
    assert workers_in(None) == []


def test_a_worker_is_what_its_columns_say_where_they_differ_from_its_document():
    *_, document = registered(worker("w", is_dead=True, jobs=("stale",)))

    [read] = workers_in(f'[[{NOW + 2},0,3,{document},[["held","w/2"],["held too",null]]]]')

    assert read == worker(
        "w",
        is_dead=False,
        last_pinged=NOW + 2,
        revision=3,
        jobs=("held", "held too"),
        places=(2,),
    )
