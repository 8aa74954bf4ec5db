"""Jobs that bear no second run, whatever becomes of their worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from shunter.dispatch import sweep
from shunter.model.job import ErrorKind, Failure, Status
from shunter.model.report import Held, Report
from shunter.model.worker import Handler, WorkerKind
from shunter.testing.finish import finish

J1 = Held("j-1", 1)
DIED = Failure(ErrorKind.LOST, "killed")


def falls_silent(scene: Any) -> None:
    scene.survey()
    scene.clock.advance(10.0)
    scene.survey()


def does_not_know_of_it(scene: Any) -> None:
    scene.beat_for(4, "w-1")


def comes_back_without_it(scene: Any) -> None:
    scene.beat_for(4, "w-1", J1)
    scene.worker("w-1")


def loses_the_process(scene: Any) -> None:
    scene.report("w-1", Report("j-1", 1, error=DIED))


def stops_it_to_resign(scene: Any) -> None:
    scene.dispatcher.give_back("w-1", [J1], "resigned", may_have_begun=True)
    scene.turns()


ENDS = [
    falls_silent,
    does_not_know_of_it,
    comes_back_without_it,
    loses_the_process,
    stops_it_to_resign,
]


@pytest.mark.parametrize("ends", ENDS)
def test_it_ends_as_lost_when_its_worker(scene: Any, ends: Callable[[Any], None]) -> None:
    scene.worker("w-1")
    scene.submit("j-1", effects="at_most_once")
    scene.submit("j-2")

    ends(scene)
    scene.clock.advance(0.1)
    scene.worker("w-2", slots=9)

    job = scene.job("j-1")
    assert (job.status, job.attempt) == (Status.FAILED, 1)
    assert job.error is not None
    assert job.error.kind is ErrorKind.LOST
    assert ("w-2", "j-1") not in scene.runs()
    assert scene.said.delivered[-1].id == "j-1"


def test_it_runs_elsewhere_when_its_worker_says_that_it_never_began(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1", effects="at_most_once")
    scene.worker("w-2")
    scene.dispatcher.leave("w-1")

    scene.dispatcher.give_back("w-1", [J1], "resigning")
    scene.turns()

    assert scene.runs() == [("w-1", "j-1"), ("w-2", "j-1")]


def test_it_ends_as_lost_when_a_plain_worker_is_presumed_dead(scene: Any) -> None:
    scene.worker("plain:1", kind=WorkerKind.PLAIN)
    scene.submit("j-1", effects="at_most_once")

    scene.clock.advance(10_000.0)
    finish(sweep.ring_alarms(scene.dispatcher))
    scene.turns()

    assert scene.job("j-1").history[-1].outcome == "abandoned"


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_handler_declares_counts_for_jobs_that_say_nothing(scene: Any, waits: bool) -> None:
    once = scene.arrival("w-1")
    handlers = (Handler("t", effects="at_most_once"),)
    once = replace(once, worker=replace(once.worker, handlers=handlers))
    if waits:
        scene.submit("j-1")
    scene.dispatcher.introduce(once)
    scene.turns()
    if not waits:
        scene.submit("j-1")

    loses_the_process(scene)

    assert scene.job("j-1").history[-1].outcome == "abandoned"
