"""Two things at once: what one of them must not do to the other."""

from __future__ import annotations

from typing import Any

import pytest

from shunter.dispatch import sweep
from shunter.errors import StoreError
from shunter.model.job import Status
from shunter.model.report import Advance, Held, Report
from shunter.model.submission import Receipt
from shunter.model.worker import WorkerKind
from shunter.testing.finish import finish

J1 = Held("j-1", 1)


def test_a_cancel_that_meets_another_write_is_decided_again_before_it_is_answered(
    scene: Any,
) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1")
    scene.submit("j-1")
    other.look_at([])
    scene.worker("w-1", held=[J1], at=other)
    other.advance("w-1", [Advance("j-1", 1, 1.0)])
    scene.turns(other)
    receipts: list[Receipt] = []

    scene.dispatcher.cancel(["j-1"], receipts.extend)
    scene.turns()

    assert scene.dispatcher.counters["writes_refused"] == 1
    assert receipts == [Receipt("j-1")]
    assert scene.job("j-1").cancel_requested


def test_a_cancel_beside_a_report_says_how_it_really_ended(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    receipts: list[Receipt] = []

    scene.dispatcher.cancel(["j-1"], receipts.extend)
    scene.report("w-1", Report("j-1", 1, result=b"\x01"))

    assert scene.job("j-1").status is Status.COMPLETED
    assert "completed" in receipts[0].reason


def test_the_last_progress_before_the_end_is_kept(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")

    scene.dispatcher.advance("w-1", [Advance("j-1", 1, 10.0, 10.0)])
    scene.report("w-1", Report("j-1", 1, result=b"\x01"))

    assert scene.job("j-1").progress.done == 10.0


def test_repeating_the_submission_of_a_running_job_frees_no_place(scene: Any) -> None:
    scene.worker("w-1", slots=2)
    scene.submit("j-1")

    scene.submit("j-1")
    scene.submit("j-2", "j-3")

    assert [job for _, job in scene.runs()] == ["j-1", "j-2"]


def test_repeating_the_submission_of_a_running_job_takes_no_place_of_another_worker(
    scene: Any,
) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.worker("w-2")

    scene.submit("j-1")
    scene.submit("j-2")

    assert scene.runs() == [("w-1", "j-1"), ("w-2", "j-2")]


def test_a_job_whose_submission_was_repeated_is_missed_where_it_should_be(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.worker("w-2")
    scene.submit("j-1")

    for _ in range(5):
        scene.beat_for(1, "w-2")
        scene.beat("w-1")

    assert scene.job("j-1").attempt == 2


def test_a_job_that_another_dispatcher_moved_has_one_place(scene: Any) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1")
    scene.submit("j-1")
    scene.worker("w-2", at=other)
    other.give_back("w-1", [J1], "it was not sent")
    scene.turns(other)

    scene.worker("w-2", held=[Held("j-1", 2)])
    scene.submit("j-2", "j-3")

    assert {scene.job(name).execution.worker_id for name in ("j-2", "j-3")} == {"w-1", "w-2"}


@pytest.mark.parametrize("kind", [WorkerKind.UDP, WorkerKind.PLAIN])
@pytest.mark.parametrize("has_left", [False, True])
def test_what_is_sent_to_a_worker_after_it_came_back_is_not_missing(
    scene: Any, monkeypatch: Any, kind: WorkerKind, has_left: bool
) -> None:
    scene.worker("w-1", kind=kind)
    commit, moments = scene.store.commit, iter([2.0])

    async def slow_commit(batch: Any) -> Any:
        for seconds in moments:
            if has_left:
                scene.dispatcher.leave("w-1")
            scene.dispatcher.introduce(scene.arrival("w-1", kind=kind))
            scene.clock.advance(seconds)
        return await commit(batch)

    monkeypatch.setattr(scene.store, "commit", slow_commit)
    scene.submit("j-1")

    assert scene.runs() == [("w-1", "j-1")]
    assert (scene.job("j-1").status, scene.job("j-1").losses) == (Status.IN_PROGRESS, 0)


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_dispatcher_that_knows_an_earlier_run_only_asks_the_store_about_a_later_one(
    scene: Any, is_ended: bool
) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1")
    scene.submit("j-1")
    scene.worker("w-1", held=[J1], at=other)
    scene.dispatcher.give_back("w-1", [J1], "it was too much")
    scene.turns()
    assert scene.job("j-1").attempt == 2

    if is_ended:
        scene.report("w-1", Report("j-1", 2, result=b"\x01"), at=other)
    else:
        other.give_back("w-1", [Held("j-1", 2)], "it was too much")
        scene.turns(other)

    assert scene.refused == []
    job = scene.job("j-1")
    assert (job.status, job.attempt) == (
        (Status.COMPLETED, 2) if is_ended else (Status.IN_PROGRESS, 3)
    )


def test_a_report_that_lost_a_race_is_not_confirmed_yet(scene: Any) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1")
    scene.submit("j-1")
    other.cancel(["j-1"], lambda receipts: None)
    scene.turns(other)

    scene.dispatcher.report("w-1", [Report("j-1", 1, result=b"\x01")], batch=5)
    finish(scene.dispatcher.turn())
    assert scene.said.taken == []
    scene.turns()

    assert scene.job("j-1").status is Status.COMPLETED


def test_a_store_that_fails_for_a_while_costs_nothing(scene: Any, monkeypatch: Any) -> None:
    import asyncio

    failures = iter([StoreError("full"), StoreError("full")])
    commit, slept = scene.store.commit, []

    async def failing_commit(batch: Any) -> Any:
        if error := next(failures, None):
            raise error
        return await commit(batch)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(scene.store, "commit", failing_commit)

    assert scene.submit("j-1") == [Receipt("j-1")]

    assert slept == [0.1, 0.2]
    assert scene.job("j-1").status is Status.QUEUED


def test_an_alarm_that_is_behind_what_the_dispatcher_knows_is_ignored(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1", timeout=10.0)
    scene.clock.advance(16.0)
    stale = finish(scene.store.alarms(now=scene.clock(), limit=9))
    scene.dispatcher.advance("w-1", [Advance("j-1", 1, 1.0)])
    scene.turns()

    scene.dispatcher.look_at(stale)
    scene.turns()

    assert scene.job("j-1").status is Status.IN_PROGRESS
    assert set(scene.dispatcher.state.running) == {"j-1"}


@pytest.mark.parametrize("how", ["presumed dead", "cancelled"])
def test_a_plain_worker_whose_job_was_taken_away_gets_no_other_in_the_same_turn(
    scene: Any, how: str
) -> None:
    """Its late result would be taken for the other job's."""
    scene.worker("plain:aa", kind=WorkerKind.PLAIN)
    scene.submit("j-1", "j-2")
    assert [job for _, job in scene.runs()] == ["j-1"]
    scene.dispatcher.expect_waiting()

    if how == "cancelled":
        scene.dispatcher.cancel(["j-1"], lambda receipts: None)
    else:
        scene.clock.advance(60.0)
        finish(sweep.ring_alarms(scene.dispatcher))
    scene.turns()

    assert [job for _, job in scene.runs()] == ["j-1"]


def test_a_worker_that_resigned_and_left_is_forgotten(scene: Any) -> None:
    scene.worker("w-1")
    scene.dispatcher.resign("w-1")
    scene.turns()

    scene.clock.advance(10.0)
    scene.survey()

    assert scene.dispatcher.state.roster.types() == set()
    scene.clock.advance(4000.0)
    finish(sweep.forget_gone(scene.dispatcher))
    assert finish(scene.store.workers()) == []
