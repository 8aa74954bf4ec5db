"""What becomes of a run that parks, and of a signal that comes at that moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from shunter.dispatch.arrivals import Arrivals
from shunter.dispatch.parks import plan_park, plan_stored
from shunter.dispatch.plan import Plan
from shunter.errors import JobError, StaleAttempt
from shunter.model import lifecycle
from shunter.model.job import ErrorKind, Failure, Job, Status
from shunter.model.journal import EntryKind, Keep
from shunter.model.lifecycle import WorkerSlot
from shunter.model.park import Park, encode_park
from shunter.model.report import Report
from shunter.model.submission import Submission
from shunter.model.waits import WaitKind, child_ids

NOW = 1000.0


def running(**changes: Any) -> Job:
    job = Job(id="j", type="t", created=NOW, updated=NOW, payload=b"\xc0", **changes)
    claimed = lifecycle.claimed(job, dispatcher_id="d", now=NOW)
    return lifecycle.started(claimed, WorkerSlot("w"), now=NOW)


def parked_report(park: Park, attempt: int = 1) -> Report:
    return Report("j", attempt, encode_park(park), Failure(ErrorKind.PARKED, "parked"))


@dataclass
class Scene:
    plan: Plan = field(default_factory=lambda: Plan(Arrivals(), NOW))

    def park(self, job: Job, park: Park, *, there: frozenset[str] = frozenset()) -> Job:
        def admit(submission: Submission, submitter: Any, now: float) -> Job:
            return Job(
                id=submission.id,
                type=submission.type,
                created=now,
                updated=now,
                payload=submission.payload,
            )

        return plan_park(job, parked_report(park), admit, there, self.plan)


def test_a_sleep_waits_until_its_time_and_counts_for_nothing() -> None:
    parked = Scene().park(running(), Park("rest", WaitKind.SLEEP, 60.0))

    assert (parked.status, parked.wait_until) == (Status.WAITING, NOW + 60)
    assert parked.execution.worker_id is None
    assert (parked.failures, parked.losses, parked.snoozes, parked.history) == (0, 0, 0, ())


def test_a_signal_that_came_after_the_run_had_looked_wakes_the_job_at_once() -> None:
    job = lifecycle.signalled(running(), "go", now=NOW)
    park = Park("go", WaitKind.SIGNAL, None, "go", seen=0)

    woken = Scene().park(job, park)

    assert (woken.status, woken.revision) == (Status.QUEUED, job.revision + 1)
    seen = Scene().park(job, Park("go", WaitKind.SIGNAL, None, "go", seen=1))
    assert (seen.status, seen.wait_until) == (Status.WAITING, None)


def test_only_the_signal_that_a_parked_job_waits_for_wakes_it() -> None:
    parked = Scene().park(running(), Park("ok", WaitKind.SIGNAL, None, "approved"))

    other = lifecycle.signalled(parked, "ok", now=NOW)
    assert (other.status, other.signals) == (Status.WAITING, 1)
    woken = lifecycle.signalled(other, "approved", now=NOW)
    assert (woken.status, woken.signals) == (Status.QUEUED, 2)


def test_children_are_stored_with_the_park_and_those_that_are_there_are_waited_for() -> None:
    ids = child_ids("j", "pages", 2)
    park = Park(
        "pages",
        WaitKind.CHILDREN,
        marks=(Keep("j", 1, EntryKind.STEP, "rest", b"\xc0"),),
        children=tuple(Submission(name, "t", b"\xc0") for name in ids),
    )
    scene = Scene()

    parked = scene.park(running(), park, there=frozenset(ids[:1]))

    [insertion] = scene.plan.graphs
    assert [kid.id for kid in insertion.graph.jobs] == ids[1:]
    assert {(edge.child, edge.parent) for edge in insertion.graph.edges} == {
        ("j", name) for name in ids
    }
    assert [entry.key for entry in scene.plan.entries] == ["rest"]
    assert parked.wait_until is not None
    plan_stored(parked, scene.plan)
    assert scene.plan.changes["j"].job.wait_until is None


@pytest.mark.parametrize(
    "park",
    [
        Park("", WaitKind.SLEEP, 1.0),
        Park("a", WaitKind.SLEEP, None),
        Park("a", WaitKind.SLEEP, -1.0),
        Park("a", WaitKind.CHILDREN),
        Park("a", WaitKind.CHILDREN, children=(Submission("another's id", "t", b"\xc0"),)),
        Park("a", WaitKind.SLEEP, 1.0, marks=(Keep("other", 1, EntryKind.STEP, "x", b"\xc0"),)),
        Park("a", WaitKind.SLEEP, 1.0, chunks=-1),
    ],
)
def test_a_park_that_makes_no_sense_is_refused(park: Park) -> None:
    with pytest.raises(JobError, match="parked with"):
        Scene().park(running(), park)


def test_a_stale_run_can_t_park_its_job() -> None:
    report = parked_report(Park("rest", WaitKind.SLEEP, 60.0), attempt=2)
    with pytest.raises(StaleAttempt):
        plan_park(running(), report, lambda *_: None, frozenset(), Plan(Arrivals(), NOW))  # type: ignore[arg-type, return-value]


def test_children_go_on_in_a_run_whose_name_would_be_refused_today() -> None:
    scene, ids = Scene(), child_ids("j", "all", 2)
    children = (
        Submission(ids[0], "t", b"\xc0", run="two words"),
        Submission(ids[1], "t", b"\xc0", run="other words"),
    )
    seen: list[str | None] = []

    def admit(submission: Submission, submitter: Any, now: float) -> Job:
        seen.append(submission.run)
        return Job(id=submission.id, type="t", created=now, updated=now, run=submission.run)

    park = Park("all", WaitKind.CHILDREN, children=children)
    plan_park(running(run="two words"), parked_report(park), admit, frozenset(), scene.plan)

    assert seen == [None, "other words"]
    assert [job.run for job in scene.plan.graphs[0].graph.jobs] == ["two words", "other words"]
