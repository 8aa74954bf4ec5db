"""Workflows in a sandbox: order and conditions, refusals, reruns, and what handlers see."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from long_runs import IS_LONG
from shunter import App, Client, Context, Retry
from shunter.app import payload_of
from shunter.dispatch import dependents, graph_intake, sweep
from shunter.errors import AppError, JobRefused, RunNotFound
from shunter.model.job import Status, When
from shunter.model.submission import Receipt, Submission
from shunter.testing import Sandbox
from shunter.testing.finish import finish
from shunter.testing.sandbox_session import reaching

app = App()
ran: list[str] = []


@app.job
def work(name: str, fails: bool = False) -> str:
    ran.append(name)
    if fails:
        raise ValueError(f"{name} can't")
    return name.upper()


@app.job
def gather(ctx: Context) -> dict[str, Any]:
    return {parent.status.word: parent.result for parent in ctx.parents.values()}


@app.job
def order(ctx: Context) -> list[str]:
    return ctx.parents.results("work")


@pytest.fixture
def sandbox():
    ran.clear()
    with Sandbox(app) as sandbox:
        yield sandbox


def submitted(sandbox, *nodes: Submission) -> list[Receipt]:
    receipts: list[Receipt] = []
    sandbox.dispatcher.submit(nodes, receipts.extend)
    finish(sandbox.dispatcher.turn())
    return receipts


def node(name: str, *after: str, when: str | None = None, fails: bool = False, **more: Any):
    return Submission(
        name, "work", payload_of(name, fails=fails), after=after or None, when=when, **more
    )


# ---- a plain model


@st.composite
def graphs(draw):
    """Jobs by number: whom each waits for, on which condition, and whether it fails."""
    jobs = []
    for number in range(draw(st.integers(1, 50))):
        few = st.lists(st.integers(0, number - 1), max_size=4, unique=True)
        after = draw(few) if number else []
        when = draw(st.sampled_from(list(When))) if after else None
        jobs.append((after, when, draw(st.integers(0, 4)) == 0))
    return jobs


def expected(jobs):
    """How each job ends, by the plainest reading of the rules."""
    ends: list[str] = []
    for after, when, fails in jobs:
        parents = [ends[at] for at in after]
        is_bad = any(end in ("failed", "cancelled") for end in parents)
        if when is When.ANY_FAILED and not is_bad:
            end = "unneeded"
        elif when is When.ALL_OK and is_bad:
            end = "cancelled"
        elif when is When.ALL_OK and "unneeded" in parents:
            end = "unneeded"
        else:
            end = "failed" if fails else "completed"
        ends.append(end)
    return ends


@settings(max_examples=300 if IS_LONG else 25, deadline=None)
@given(graphs())
def test_any_graph_ends_as_the_plain_model_says_and_in_order(jobs):
    ran.clear()
    with Sandbox(app) as sandbox:
        nodes = [
            node(f"j{at}", *(f"j{it}" for it in after), when=when, fails=fails)
            for at, (after, when, fails) in enumerate(jobs)
        ]
        assert not any(receipt.reason for receipt in submitted(sandbox, *nodes))
        sandbox.run()

        records = [sandbox.job(f"j{at}") for at in range(len(jobs))]
        assert [_end(record) for record in records] == expected(jobs)
        assert sorted(ran) == sorted(set(ran)), "a job ran twice"
        assert not any(record.dependents for record in records)
        for at, (after, when, _) in enumerate(jobs):
            if f"j{at}" in ran and when is not When.ANY_FAILED:
                before = [ran.index(f"j{it}") for it in after if f"j{it}" in ran]
                assert all(place < ran.index(f"j{at}") for place in before)


def _end(record) -> str:
    if record.error is not None and record.error.kind == "unneeded":
        return "unneeded"
    return record.status.word


# ---- what a user does


def test_a_workflow_is_stored_when_the_block_ends_and_not_if_it_raises(sandbox):
    with pytest.raises(ZeroDivisionError), sandbox.workflow("etl") as run:
        run.job("work", len(run.job("work", "never").id) / 0)
    sandbox.run()
    assert ran == []

    with sandbox.workflow("etl") as run:
        first = run.job("work", "first")
        second = run.with_options(priority=3).job(work, "second", after=first)
        assert ran == []

    assert second.result() == "SECOND"
    assert ran == ["first", "second"]
    assert repr(run) == f"<run {run.id} of etl: 2 jobs>"
    record = sandbox.job(second.id)
    assert (record.workflow, record.run, record.priority) == ("etl", run.id, 3)


def test_a_handler_sees_how_its_parents_ended(sandbox):
    with sandbox.workflow("etl") as run:
        good = run.job("work", "good")
        bad = run.job("work", "bad", True)
        seen = run.job("gather", after=[good, bad], when="all_done")

    assert seen.result() == {"completed": "GOOD", "failed": None}


def test_a_batch_is_the_short_form(sandbox):
    last = sandbox.batch([("work", "a"), ("work", "b")], then=gather, when="all_done")

    assert last.result() == {"completed": "B"} or last.result() == {"completed": "A"}
    assert sorted(ran) == ["a", "b"]


def test_a_call_of_a_batch_may_be_a_job_without_arguments(sandbox):
    assert sandbox.batch([gather], then="gather").result() == {"completed": {}}
    with pytest.raises(AppError, match=r"batch: found \(\); give a job and its arguments"):
        sandbox.batch([()], then="gather")


@pytest.mark.parametrize("calls", ["work", {"work": 1}, 7])
def test_what_is_no_list_of_calls_is_refused(sandbox, calls):
    with pytest.raises(AppError, match=r"batch: found .*; give a list of calls"):
        sandbox.batch(calls, then="gather")
    with sandbox.client() as client:
        assert client.jobs() == []


def test_jobs_of_a_block_are_stored_or_refused_as_a_whole_though_none_waits_for_another(sandbox):
    with sandbox.client() as client:
        for place in (client, sandbox):
            with pytest.raises(JobRefused, match="priority"):
                _submit_good_and_bad(run := place.workflow("loose"))

            with pytest.raises(RunNotFound, match=f"run {run.id}: not found"):
                client.runs.show(run.id)
    sandbox.run()
    assert ran == []


def _submit_good_and_bad(run) -> None:
    with run:
        run.job("work", "good")
        run.with_options(priority=5000).job("work", "bad")


def test_a_job_that_would_never_be_sent_is_refused(sandbox):
    with sandbox.workflow("etl") as run:
        view = run.with_options(priority=3)
    for late in (run, view):
        with pytest.raises(AppError, match=f"its block has ended.*run='{run.id}'"):
            late.job("work", "late")
    with pytest.raises(AppError, match="its block has not begun; use it in a `with`"):
        sandbox.workflow("etl").job("work", "early")


def test_a_result_that_is_waited_for_inside_the_block_says_that_nothing_is_sent_yet(sandbox):
    with sandbox.client() as client:
        with client.workflow("etl") as run:
            job = run.job("work", "first")
            with pytest.raises(AppError, match=f"job {job.id}: it is not sent yet"):
                job.result(timeout=5)
        assert job.result(timeout=5) == "FIRST"


def test_a_dependent_waits_for_jobs_that_run_or_have_ended(sandbox):
    done = sandbox.submit("work", "done")
    done.result()
    waiting = sandbox.with_options(delay=60).submit("work", "waiting")

    with sandbox.workflow("late") as run:
        last = run.job("work", "last", after=[done.id, waiting])
    sandbox.run()
    assert last.status is Status.WAITING

    sandbox.advance(60)
    assert last.result() == "LAST"


def test_retries_of_a_parent_wake_nobody(sandbox):
    retry = {"limit": 2, "delay": 10.0, "jitter": 0.0}

    with sandbox.workflow("r") as run:
        bad = run.with_options(retry=Retry(**retry)).job("work", "bad", True)
        after = run.job("work", "cleanup", after=bad, when="any_failed")
    sandbox.run()

    assert after.status is Status.WAITING
    sandbox.settle()
    assert ran == ["bad", "bad", "bad", "cleanup"]


def test_a_cancelled_parent_cancels_what_waits_for_it_with_that_as_the_reason(sandbox):
    with sandbox.workflow("c") as run:
        first = run.with_options(delay=60).job("work", "first")
        second = run.job("work", "second", after=first)
        third = run.job("work", "third", after=second)
        alarm = run.job("work", "alarm", after=third, when="any_failed")
    sandbox.run()

    sandbox.cancel(first.id)
    sandbox.run()

    assert [it.status for it in (second, third)] == [Status.CANCELLED] * 2
    assert f"its parent {first.id} was cancelled" in sandbox.job(second.id).error.message
    assert f"its parent {second.id} was cancelled" in sandbox.job(third.id).error.message
    assert alarm.result() == "ALARM"


def test_a_parked_job_can_be_cancelled_by_itself(sandbox):
    with sandbox.workflow("c") as run:
        first = run.with_options(delay=60).job("work", "first")
        second = run.job("work", "second", after=first)

    sandbox.cancel(second.id)
    sandbox.advance(61)

    assert (first.status, second.status) == (Status.COMPLETED, Status.CANCELLED)
    assert ran == ["first"]


def test_a_woken_job_keeps_its_delay_and_its_time_to_be_placed(sandbox):
    with sandbox.workflow("d") as run:
        first = run.job("work", "first")
        second = run.with_options(delay=30.0, expires_in=5.0).job("work", "second", after=first)
    sandbox.run()

    record = sandbox.job(second.id)
    assert record.status is Status.QUEUED
    assert record.place_by == record.wait_until + 5.0
    sandbox.advance(31)
    assert second.result() == "SECOND"


def test_a_parked_job_occupies_no_slot_and_nothing_looks_at_it(sandbox):
    with sandbox.workflow("w") as run:
        first = run.with_options(delay=3600).job("work", "first")
        for number in range(200):
            run.job("work", f"n{number}", after=first)
    sandbox.run()
    turns = sandbox.dispatcher.turns

    sandbox.advance(600)

    assert sandbox.dispatcher.turns - turns < 20
    assert sandbox.dispatcher.state.running == {}


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(dependents, "EDGES_AT_ONCE", 7)
    monkeypatch.setattr(dependents, "PARENTS_AT_ONCE", 5)


def test_a_parent_with_more_dependents_than_a_page_tells_all_of_them(sandbox, small_pages):
    nodes = [node("top"), *(node(f"n{number:04}", "top") for number in range(30))]
    assert not any(it.reason for it in submitted(sandbox, *nodes))

    sandbox.run()

    assert len(ran) == 31
    assert not sandbox.job("top").dependents


def test_more_parents_than_a_page_wake_their_child_once(sandbox, small_pages):
    parents = [f"p{number:04}" for number in range(30)]
    submitted(sandbox, *(node(name) for name in parents), node("last", *parents))

    sandbox.run()

    assert ran.count("last") == 1
    assert ran[-1] == "last"


# ---- a dispatcher that died half-way


def test_what_a_dead_dispatcher_left_untold_is_told_by_another(sandbox):
    submitted(sandbox, node("top"), node("kid", "top"))
    while sandbox.job("top").status is not Status.COMPLETED:
        if sandbox.dispatcher.has_work:
            finish(sandbox.dispatcher.turn())
        else:
            sandbox.worker.work()
    queue = sandbox.dispatcher.state.dependents
    queue._due.clear()  # its memory is gone
    assert not queue.has_work

    finish(sweep.tell_dependents(sandbox.dispatcher))
    sandbox.run()

    assert ran == ["top", "kid"]


@pytest.mark.parametrize("steps", range(5))
def test_telling_is_taken_up_wherever_it_was_left(sandbox, steps):
    submitted(sandbox, node("top"), node("kid", "top"), node("other", "kid", "top"))
    queue = sandbox.dispatcher.state.dependents
    for _ in range(100):
        if queue.has_work:
            for _ in range(steps):
                finish(sandbox.dispatcher.turn())
            queue._due.clear()
            queue._tellings.clear()
            queue._told.clear()
            queue._page = queue._planned = None
            break
        finish(sandbox.dispatcher.turn())
        sandbox.worker.work()

    sandbox.run()

    assert ran == ["top", "kid", "other"]


# ---- refusals


def refused(sandbox, *nodes) -> Receipt:
    receipts = submitted(sandbox, *nodes)
    assert all(receipt.reason for receipt in receipts), "a part was accepted"
    assert finish(sandbox.store.get([it.id for it in nodes])) == [None] * len(nodes)
    return min(receipts, key=lambda receipt: "because of another" in receipt.reason)


@pytest.mark.parametrize(
    ("nodes", "job_id", "field", "words"),
    [
        ([node("a", "b"), node("b", "a")], "a", "after", "wait for each other: a after b after a"),
        ([node("a", "a")], "a", "after", "wait for each other"),
        ([node("a"), node("b", "gone")], "b", "after", "there is no job gone"),
        ([node("a"), node("b", "a", when="sometimes")], "b", "when", "all_ok, all_done"),
        ([node("a"), node("b", "a", when="all_don")], "b", "when", "did you mean 'all_done'?"),
        ([node("a"), node("b", when="all_done")], "b", "when", "name the jobs"),
        ([node("a"), node("b", "a"), node("b", "a")], "b", "id", "twice"),
        ([node("a", unique_key="k"), node("b", "a")], "a", "unique_key", "leave it out"),
        ([node("a"), node("b", "no name")], "b", "after", "ids"),
        ([node("a", priority=5000), node("b", "a")], "a", "priority", "1000"),
    ],
)
def test_a_bad_graph_is_refused_as_a_whole_and_names_the_job(sandbox, nodes, job_id, field, words):
    receipt = refused(sandbox, *nodes)

    assert (receipt.job_id, receipt.field) == (job_id, field)
    assert words in receipt.reason


@pytest.mark.parametrize("bound", ["MAX_NODES", "MAX_EDGES"])
def test_a_graph_that_is_too_large_is_refused(sandbox, monkeypatch, bound):
    monkeypatch.setattr(graph_intake, bound, 3)
    parents = [node(f"n{number}") for number in range(4)]

    receipt = refused(sandbox, node("last", *(it.id for it in parents)), *parents)

    assert "at most 3 are accepted" in receipt.reason


def test_a_repeated_graph_is_answered_and_runs_once(sandbox):
    graph = [node("a"), node("b", "a")]
    submitted(sandbox, *graph)
    sandbox.run()

    assert not any(receipt.reason for receipt in submitted(sandbox, *graph))
    sandbox.run()
    assert ran == ["a", "b"]


def test_after_takes_jobs_ids_and_lists_and_nothing_else(sandbox):
    with pytest.raises(Exception, match="give jobs, ids of jobs"), sandbox.workflow("x") as run:
        run.job("work", "a", after=7)
    with pytest.raises(JobRefused, match="there is no job nowhere"), sandbox.workflow("x") as run:
        run.job("work", "a", after=["nowhere"])


# ---- looking


def test_runs_are_listed_newest_first_by_pages(sandbox):
    ids = []
    for name in ("etl", "other", "etl"):
        with sandbox.workflow(name) as run:
            run.job("work", name)
        ids.append(run.id)
        sandbox.advance(1.0)

    with reaching(sandbox), Client() as client:
        newest = client.runs.list()
        assert [it.id for it in newest] == ids[::-1]
        assert [it.id for it in client.runs.list(workflow="etl", limit=1)] == [ids[2]]
        assert [it.id for it in client.runs.list(workflow="etl", before=ids[2])] == [ids[0]]
    assert newest[0].counts == {Status.COMPLETED: 1}


def test_parents_are_in_the_order_in_which_they_are_named(sandbox):
    with sandbox.workflow("w") as run:
        parents = [run.job("work", name) for name in ("a", "b", "c")]
        last = run.job("order", after=[parents[2], parents[0], parents[1]])

    assert last.result() == ["C", "A", "B"]


# ---- done again


def test_a_dependent_that_still_waits_waits_for_the_new_one_of_its_parent(sandbox):
    with sandbox.workflow("w") as run:
        first = run.job("work", "first")
        late = run.with_options(delay=60.0).job("work", "late")
        last = run.job("order", after=[first, late])
    sandbox.run()
    assert (first.status, last.status) == (Status.COMPLETED, Status.WAITING)

    with reaching(sandbox), Client() as client:
        (again,) = client.runs.rerun(run.id, first=first.id)
        finish(sandbox.dispatcher.turn())
        finish(sweep.tell_dependents(sandbox.dispatcher))
        edges = {it.parent: it.outcome for it in client.runs.waits_for(last.id)}
    assert edges == {first.id: "c", late.id: "", again.id: ""}
    sandbox.advance(60.0)

    assert ran == ["first", "first", "late"]
    assert last.result() == ["FIRST", "LATE"], "not what the first time returned as well"
    assert last.record.attempt == 1


def test_what_has_begun_can_t_wait_for_a_rerun_and_is_named(sandbox):
    with sandbox.workflow("w") as run:
        first = run.job("work", "first")
        last = run.with_options(delay=60.0).job("work", "last", after=first)
    sandbox.run()
    assert last.status is Status.QUEUED

    with reaching(sandbox), Client() as client, pytest.raises(JobRefused, match=last.id):
        client.runs.rerun(run.id, first=first.id)

    begun = Submission("again", "work", payload_of("x"), rerun_of=first.id, awaited_by=(last.id,))
    refusal = refused(sandbox, begun)
    assert (refusal.field, last.id in refusal.reason) == ("awaited_by", True)
    strange = refused(sandbox, Submission("new", "work", b"\x90", awaited_by=(last.id,)))
    assert strange.field == "awaited_by"
