"""The job that calls hooks for another one, and who may do it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shunter.model.final_failure import (
    MESSAGE_CHARACTERS,
    hook_job,
    hooked_types,
    last_witnesses,
    owes_hooks,
    owing_hooks,
    read_final_failure,
    with_hooks,
)
from shunter.model.identity import hook_name, is_name, is_reserved
from shunter.model.job import ErrorKind, Failure, Job, Status
from shunter.model.worker import Handler, Worker, WorkerKind

LOST = Failure(ErrorKind.LOST, "x" * 2 * MESSAGE_CHARACTERS)
FAILED = Job(
    id="j-1",
    type="send",
    created=1.0,
    updated=2.0,
    payload=b"\x01",
    status=Status.FAILED,
    attempt=3,
    run="nightly",
    namespace="team",
    priority=7,
    keys={"tenant": "a"},
    lane="a",
    scheduled=7.0,
    error=LOST,
)


def a_worker(*handlers: Handler, is_dead: bool = False, is_resigned: bool = False) -> Worker:
    return Worker(
        id="w",
        kind=WorkerKind.FULL,
        hostname="",
        port=0,
        handlers=handlers,
        max_jobs=1,
        registered=0.0,
        last_pinged=0.0,
        is_dead=is_dead,
        is_resigned=is_resigned,
    )


def test_names_are_made_of_the_failed_job_s_and_stay_names_however_long_that_is() -> None:
    longest, other = "x" * 128, "x" * 127 + "y"

    assert hook_name("j-1") == "final-failure/j-1"
    assert is_name(hook_name(longest))
    assert is_reserved(hook_name(longest))
    assert hook_name(longest) != hook_name(other)
    assert not is_reserved("final-failures")


@pytest.mark.parametrize("status", Status)
def test_only_what_has_failed_and_was_not_told_is_owed(status: Status) -> None:
    ended = replace(FAILED, status=status)

    assert owes_hooks(ended) is (status is Status.FAILED)
    assert not owes_hooks(replace(ended, error=replace(LOST, is_told=True)))


def test_whoever_makes_the_job_makes_the_same_one_and_says_how_the_other_failed() -> None:
    owing = owing_hooks(FAILED)
    first, again = hook_job(owing, now=10.0), hook_job(owing, now=20.0)

    assert owing.dependents
    assert first.id == owing.hook_job == "final-failure/j-1"
    assert (first.id, first.type, first.payload) == (again.id, again.type, again.payload)
    assert (first.type, first.namespace, first.lane) == ("final-failure/send", "team", None)
    assert first.priority == 7
    told = read_final_failure(first.payload or b"")
    assert (told.job_id, told.type, told.attempt) == ("j-1", "send", 3)
    assert (told.run, told.scheduled, told.kind) == ("nightly", 7.0, ErrorKind.LOST)
    assert told.message == "x" * MESSAGE_CHARACTERS


def test_a_worker_does_calls_of_hooks_for_the_types_that_have_any() -> None:
    handlers = (Handler("a", has_hooks=True, concurrency=4), Handler("b"))

    types = {it.type: it.concurrency for it in with_hooks(handlers)}

    assert types == {"a": 4, "b": 1, "final-failure/a": 4}


def test_workers_that_are_there_say_which_types_have_hooks_and_else_those_that_were() -> None:
    has, has_none = Handler("t", has_hooks=True), Handler("t")
    dead, gone = a_worker(has, is_dead=True), a_worker(has, is_resigned=True)

    assert hooked_types([a_worker(has_none), a_worker(has), a_worker(has_none)]) == {"t"}
    assert hooked_types([dead, a_worker(has_none, is_dead=True)]) == {"t"}
    assert hooked_types([gone]) == {"t"}
    assert hooked_types([dead, gone, a_worker(has_none)]) == frozenset()


def test_the_last_to_say_that_a_type_has_hooks_is_one_that_is_there_or_else_the_latest() -> None:
    has = Handler("t", has_hooks=True)
    early = replace(a_worker(has, is_dead=True), id="early", last_pinged=1.0)
    late = replace(a_worker(has, is_resigned=True), id="late", last_pinged=9.0)
    there = replace(a_worker(has), id="there", last_pinged=5.0)
    other = replace(a_worker(Handler("t"), is_dead=True), id="other", last_pinged=99.0)

    assert last_witnesses([late, early, other]) == {"late"}
    assert last_witnesses([late, there, early]) == {"there"}
    assert last_witnesses([other]) == frozenset()
