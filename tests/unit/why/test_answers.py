"""What is said about jobs that wait: the reason, who holds what, what would start it, and when."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from msgspec.structs import replace

from shunter.cli import explanation
from shunter.cli.terminal import Terminal
from shunter.model.activity import ActivityMinute, Spans, TypeActivity, activity_record
from shunter.model.explanation import ChangeKind, Explanation, JobStanding, ReasonKind
from shunter.model.job import Execution, Job, Status, When
from shunter.model.job_limits import JobLimits, Limit
from shunter.model.limits_record import LimitsRecord, record_of
from shunter.model.pause import Pause, PauseTarget
from shunter.model.pause import record_of as pause_record
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, JobGraph
from shunter.store.memory import MemoryStore
from shunter.store.port import Batch
from shunter.testing.finish import finish
from shunter.why import store_reads
from shunter.why.store_reads import why
from shunter.why.wording import span_text
from unit.why.why_world import NOW, OTHER, TYPE, a_job, a_worker


class Place:
    """A store with a few things in it, and the question."""

    def __init__(self, *jobs: Job, workers: tuple[Worker, ...] = ()) -> None:
        self.store = MemoryStore()
        finish(self.store.open())
        finish(self.store.insert(jobs))
        finish(self.store.put_workers(workers))

    def why(self, name: str = "job", scope: JobScope = EVERYTHING) -> Explanation:
        said = asyncio.run(why(self.store, name, now=NOW, scope=scope))
        assert said is not None
        return said


def running(name: str, on: str = "w", **changes: Any) -> Job:
    run = Execution(worker_id=on, sent=NOW - 20.0)
    fields = {"status": Status.IN_PROGRESS, "attempt": 1, "execution": run, **changes}
    return a_job(name, **fields)


def full(*jobs: Job) -> Place:
    return Place(running("r-1"), running("r-2"), *jobs, workers=(a_worker("w", TYPE, slots=2),))


def ran(place: Place, seconds: float, **others: float) -> None:
    """Note that runs of the type, and of others, took so long lately."""
    minute = ActivityMinute(
        dispatcher_id="d",
        minute=int(NOW // 60),
        types={
            name: TypeActivity(runs=Spans((2,), 2 * took))
            for name, took in {TYPE: seconds, **others}.items()
        },
    )
    assert finish(place.store.swap_records([activity_record(minute, 1)])) == [True]


def test_a_type_that_nobody_serves_is_named_with_the_one_that_is_spelt_nearly_so() -> None:
    said = Place(a_job("job", "resiz"), workers=(a_worker("w", TYPE, slots=1),)).why()

    assert said.standing is JobStanding.STUCK
    assert [(it.kind, it.similar) for it in said.reasons] == [(ReasonKind.UNSERVED, TYPE)]
    assert said.change is not None
    assert said.change.text == "start a worker that does resiz, with one slot"


def test_a_worker_that_is_gone_is_named_as_the_last_that_did_the_type() -> None:
    dead = replace(a_worker("w-old", TYPE, slots=1), is_dead=True, last_pinged=NOW - 90.0)

    said = Place(a_job("job"), workers=(dead,)).why()

    assert "the last one, w-old, is dead and was heard 1 min 30 s ago" in said.text


def test_full_workers_are_named_with_who_holds_what_since_when_and_what_comes_before() -> None:
    place = full(a_job("older", created=NOW - 150.0), a_job("job"))
    ran(place, 60.0)

    said = place.why()

    assert [it.kind for it in said.reasons] == [ReasonKind.FULL, ReasonKind.OLDER]
    first, second = said.reasons
    assert [(it.job_id, it.worker_id, it.since) for it in first.holders] == [
        ("r-1", "w", NOW - 20.0),
        ("r-2", "w", NOW - 20.0),
    ]
    assert (first.count, second.count) == (2, 1)
    assert said.change is not None
    assert (said.change.kind, said.change.value) == (ChangeKind.SLOTS, 2)
    assert said.starts_in == pytest.approx(2 * 60.0 / 2)


def test_runs_that_last_longer_than_they_did_lately_count_as_long_as_they_have_lasted() -> None:
    place = full(a_job("job"))
    ran(place, 1.0)

    assert place.why().starts_in == pytest.approx(20.0 / 2)


@pytest.mark.parametrize(("lately", "left"), [(50.0, 30.0), (3.0, 20.0)])
def test_jobs_of_other_types_in_all_slots_are_waited_for_as_long_as_theirs_take(
    lately: float, left: float
) -> None:
    other = a_job(
        "r-1",
        OTHER,
        status=Status.IN_PROGRESS,
        execution=Execution(worker_id="w", sent=NOW - 20.0),
    )
    place = Place(other, a_job("job"), workers=(a_worker("w", TYPE, OTHER, slots=1),))
    ran(place, 0.001, **{OTHER: lately})

    assert place.why().starts_in == pytest.approx(left)


@pytest.mark.parametrize(("limit", "option"), [(Limit(1), "--limit"), (Limit(total=1), "--total")])
def test_the_number_of_a_whole_type_is_changed_by_the_option_that_set_it(
    limit: Limit, option: str
) -> None:
    held = Execution(worker_id="w", sent=NOW - 20.0, total_place=0)
    place = Place(
        running("r-1", lane="", execution=held),
        a_job("job", lane=""),
        workers=(a_worker("w", TYPE, slots=9),),
    )
    record = LimitsRecord(changed=JobLimits(limit=limit), revision=1)
    finish(place.store.swap_records([record_of(TYPE, record)]))

    change = place.why().change

    assert change is not None
    assert change.command == f"shunter limits set resize {option} 2"


def test_a_limit_is_named_with_its_holders_and_the_number_that_would_do() -> None:
    limits = JobLimits(limit=Limit(1, by="tenant"))
    lane = {"keys": {"tenant": "acme"}, "lane": "tenant=acme"}
    held = Execution(worker_id="w", sent=NOW - 20.0, limit_place=0)
    place = Place(
        running("r-1", **{**lane, "execution": held}),
        a_job("older", created=NOW - 150.0, **lane),
        a_job("job", **lane),
        workers=(a_worker("w", TYPE, slots=9),),
    )
    finish(place.store.swap_records([record_of(TYPE, LimitsRecord(changed=limits, revision=1))]))

    said = place.why()

    assert said.text == "1 of tenant=acme runs, and no more than 1 may"
    assert [it.job_id for it in said.reasons[0].holders] == ["r-1"]
    assert said.change is not None
    assert said.change.text == "limit tenant=acme 3 instead of 1"
    assert said.change.command == "shunter limits set resize --limit 3"


def test_a_paused_type_is_stuck_and_says_by_whom_to_who_may_see_it() -> None:
    place = Place(a_job("job", namespace="team"), workers=(a_worker("w", TYPE, slots=1),))
    pause = Pause(target=PauseTarget.TYPE, name=TYPE, at=NOW - 60.0, by="ops")
    finish(place.store.swap_records([replace(pause_record(pause), revision=1)]))

    said, less = place.why(), place.why(scope=JobScope("team"))

    assert said.text == "the type resize is paused, for 1 min now, by ops"
    assert less.text == "the type resize is paused, for 1 min now"
    assert said.standing is JobStanding.STUCK
    assert said.change is not None
    assert said.change.command == "shunter resume resize"


def test_jobs_of_other_namespaces_are_counted_and_not_shown() -> None:
    place = Place(
        running("theirs", namespace="rivals"),
        running("mine", namespace="team"),
        a_job("job", namespace="team"),
        workers=(a_worker("w", TYPE, slots=2),),
    )

    (reason,) = place.why(scope=JobScope("team")).reasons

    assert [it.job_id for it in reason.holders] == ["mine"]
    assert reason.more == 1


def test_more_older_jobs_than_are_planned_with_are_counted_all_the_same() -> None:
    older = [
        a_job(f"older-{number}", created=NOW - 150.0) for number in range(store_reads.DEEP + 5)
    ]

    said = full(*older, a_job("job")).why()

    assert [(it.kind, it.count) for it in said.reasons][1:] == [
        (ReasonKind.OLDER, store_reads.DEEP + 5)
    ]
    assert said.change is None


def test_a_job_that_waits_for_others_says_which_and_about_which_to_ask_next() -> None:
    parents = (running("runs", on="w-2", dependents=True), a_job("waits", "nobody's"))
    job = a_job("job", status=Status.WAITING, when=When.ALL_OK)
    place = Place(*parents, workers=(a_worker("w", TYPE, slots=1),))
    edges = tuple(JobEdge("job", it.id) for it in parents)
    finish(place.store.commit(Batch(now=NOW, graphs=[JobGraph(jobs=(job,), edges=edges)])))

    said = place.why()

    assert said.text == "it waits for 2 jobs to end"
    assert [it.job_id for it in said.reasons[0].holders] == ["waits", "runs"]
    assert said.change is not None
    assert said.change.command == "shunter why waits"


def test_nothing_keeps_a_job_for_which_there_is_room() -> None:
    said = Place(a_job("job"), workers=(a_worker("w", TYPE, slots=1),)).why()

    assert said.standing is JobStanding.STARTING
    assert said.reasons == ()
    assert "it has waited 1 min 40 s; look whether its workers still speak" in said.text
    soon = Place(a_job("job", updated=NOW), workers=(a_worker("w", TYPE, slots=1),)).why()
    assert soon.text == "nothing keeps it: a dispatcher starts it within a second"


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (Place(a_job("job")), 5),
        (full(a_job("job")), 4),
        (full(running("job", on="w-2")), 0),
        (Place(a_job("job"), workers=(a_worker("w", TYPE, slots=1),)), 0),
    ],
)
def test_scripts_are_told_by_the_exit_code_whether_somebody_must_act(
    place: Place, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told:
        def __enter__(self) -> Told:
            return self

        def __exit__(self, *exc: object) -> None: ...

        def why(self, job_id: str) -> Explanation:
            return place.why(job_id)

    out = io.StringIO()
    monkeypatch.setattr(explanation, "client_of", lambda settings: Told())
    monkeypatch.setattr(explanation, "Terminal", lambda: Terminal(file=out))

    assert explanation.why(None, "job", as_json=False) == code  # type: ignore[arg-type]
    assert place.why().text in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ms"), (0.042, "42 ms"), (4.14, "4.1 s"), (59.7, "1 min"), (7500.0, "2 h 5 min")],
)
def test_spans_are_written_in_two_figures(seconds: float, text: str) -> None:
    assert span_text(seconds) == text
