"""Workers that fall silent, come back, or disagree with the store."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.dispatch.conftest import a_worker

from shunter.dispatch import sweep
from shunter.dispatch.arrivals import HeartbeatReceived, WorkerRegistered
from shunter.model.job import Status
from shunter.model.report import Held, Report
from shunter.testing.finish import finish

J1 = Held("j-1", 1)


def last_heard(scene: Any, worker_id: str) -> float:
    """When the worker was heard last, as the store has it."""
    (worker,) = finish(scene.store.workers([worker_id]))
    return float(worker.last_pinged)


def test_a_heartbeat_is_answered_after_the_lease_is_stored(scene: Any) -> None:
    scene.worker()
    scene.clock.advance(4.0)

    scene.beat("w-1")

    assert scene.said.pongs[-1] == ("w-1", 9)
    (worker,) = finish(scene.store.workers(["w-1"]))
    assert worker.last_pinged == scene.clock()


def test_a_worker_whose_lease_has_lapsed_loses_its_jobs_to_another(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.survey()
    scene.clock.advance(9.9)
    scene.worker("w-2")
    scene.survey()
    assert scene.runs() == [("w-1", "j-1")]

    scene.clock.advance(0.1)
    scene.survey()

    assert scene.runs() == [("w-1", "j-1"), ("w-2", "j-1")]
    dead = {worker.id: worker.is_dead for worker in finish(scene.store.workers())}
    assert dead == {"w-1": True, "w-2": False}


def test_a_silent_worker_is_given_nothing_new_until_it_beats_again(scene: Any) -> None:
    scene.worker("w-1")
    scene.clock.advance(3.0)
    scene.survey()

    scene.submit("j-1")
    assert scene.runs() == []
    scene.beat("w-1")

    assert scene.runs() == [("w-1", "j-1")]


def test_a_job_that_its_worker_does_not_know_of_is_queued_again(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.beat("w-1")
    assert scene.job("j-1").attempt == 1, "it may still be on its way"

    scene.beat_for(3, "w-1")

    assert scene.job("j-1").attempt == 2


def test_a_job_is_missed_though_ready_and_heartbeat_of_its_worker_come_at_once(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.clock.advance(30.0)
    other = scene.another_dispatcher("d-2")
    other.state.skews["d-1"] = 0.0

    other.introduce(scene.arrival("w-1", at=other))
    scene.beat("w-1", at=other)

    assert scene.job("j-1").attempt == 2
    assert scene.job("j-1").losses == 1


def test_a_job_that_is_not_its_workers_any_more_is_cancelled_there(scene: Any) -> None:
    scene.worker("w-1", slots=2)
    scene.submit("j-1")

    for _ in range(2):  # most that looks strange in one beat has explained itself by the next
        scene.beat("w-1", J1, Held("j-1", 3), Held("of-another-store", 1))
        scene.clock.advance(1.0)

    assert scene.said.cancels == [("w-1", Held("j-1", 3))]


def test_a_new_dispatcher_adopts_what_a_worker_still_has(scene: Any) -> None:
    scene.worker("w-1", slots=2)
    scene.submit("j-1", "j-2")
    successor = scene.another_dispatcher("d-2")

    scene.worker("w-1", slots=2, held=[J1], at=successor)
    scene.beat_for(3, "w-1", J1, window=2, at=successor)
    scene.report("w-1", Report("j-1", 1, result=b"\x01"), at=successor)

    assert scene.job("j-1").status is Status.COMPLETED
    assert scene.job("j-1").attempt == 1
    assert scene.job("j-2").attempt == 2, "the worker never had it, so it was handed out anew"
    assert scene.said.cancels == []


def test_a_job_on_its_way_from_another_dispatcher_is_left_alone(scene: Any) -> None:
    """The worker said READY to both before the first one's job reached it."""
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", slots=2)
    scene.submit("j-1")

    scene.worker("w-1", slots=2, held=[], at=other)

    assert scene.job("j-1").attempt == 1


def test_a_worker_that_comes_back_with_a_stale_run_is_told_to_stop_it(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.survey()
    scene.clock.advance(10.0)
    scene.worker("w-2")
    scene.survey()

    scene.worker("w-1", held=[J1])

    assert scene.said.cancels == [("w-1", J1)]
    assert scene.job("j-1").execution.worker_id == "w-2"


def test_a_job_that_ended_elsewhere_is_quietly_forgotten(scene: Any) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1")
    scene.submit("j-1")
    scene.worker("w-1", held=[J1], at=other)
    scene.report("w-1", Report("j-1", 1, result=b"\x01"), at=other)

    scene.beat_for(3, "w-1")

    assert scene.job("j-1").status is Status.COMPLETED
    assert scene.dispatcher.counters["jobs_lost"] == 0
    scene.submit("j-2")
    assert scene.runs()[-1] == ("w-1", "j-2")


def test_a_report_decided_on_an_outdated_record_is_decided_again(scene: Any) -> None:
    """Another dispatcher noted a cancel request; our memory of the job is behind the store."""
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1")
    scene.submit("j-1")
    other.cancel(["j-1"], lambda receipts: None)
    scene.turns(other)

    scene.dispatcher.give_back("w-1", [J1], "resigned")
    scene.turns()

    assert scene.dispatcher.counters["writes_refused"] == 1
    assert scene.job("j-1").status is Status.CANCELLED


def test_a_worker_that_resigns_gets_nothing_new_and_may_still_report(scene: Any) -> None:
    scene.worker("w-1", slots=2)
    scene.submit("j-1")
    scene.dispatcher.resign("w-1")
    scene.turns()

    scene.submit("j-2")
    scene.report("w-1", Report("j-1", 1, result=b"\x01"))

    assert scene.runs() == [("w-1", "j-1")]
    assert scene.job("j-1").status is Status.COMPLETED
    (worker,) = finish(scene.store.workers(["w-1"]))
    assert worker.is_resigned


def test_ended_jobs_are_purged_after_their_retention_a_few_at_a_time(scene: Any) -> None:
    scene.worker("w-1", slots=300)
    ids = [f"j-{n}" for n in range(250)]
    scene.submit(*ids)
    scene.report("w-1", *(Report(job_id, 1, result=b"\x01") for job_id in ids))

    assert finish(sweep.purge(scene.dispatcher)) == 0
    scene.clock.advance(7 * 86400 + 1.0)

    assert finish(sweep.purge(scene.dispatcher)) == sweep.PURGED_AT_ONCE
    assert finish(sweep.purge(scene.dispatcher)) == 250 - sweep.PURGED_AT_ONCE


def test_a_list_that_is_older_than_a_run_says_nothing_about_it(scene: Any) -> None:
    """The store stalled: what the worker said before is read when others have gone on."""
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", at=other)
    stale = WorkerRegistered(a_worker("w-1"), scene.said, frozenset(), 1, 1)
    scene.dispatcher.introduce(stale)
    scene.clock.advance(60.0)
    scene.submit("j-1", at=other)
    scene.clock.advance(5.0)

    scene.turns()

    assert scene.job("j-1").attempt == 1
    assert scene.dispatcher.counters["jobs_lost"] == 0


def test_a_heartbeat_that_waited_is_compared_with_what_was_known_when_it_came(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.dispatcher.beat(HeartbeatReceived("w-1", frozenset(), 1, 2))
    scene.clock.advance(60.0)

    scene.turns()

    assert scene.job("j-1").attempt == 1


@pytest.mark.parametrize(("waited", "is_renewed"), [(4.9, True), (5.1, False)])
def test_a_heartbeat_that_waited_until_its_worker_has_given_up_renews_nothing(
    scene: Any, waited: float, is_renewed: bool
) -> None:
    scene.worker("w-1")
    before, pongs = last_heard(scene, "w-1"), len(scene.said.pongs)
    scene.clock.advance(1.0)

    scene.dispatcher.beat(HeartbeatReceived("w-1", frozenset(), 1, 9))
    scene.clock.advance(waited)
    scene.turns()

    assert (last_heard(scene, "w-1") > before) is is_renewed
    assert len(scene.said.pongs) - pongs == int(is_renewed)


def test_a_worker_was_heard_when_its_ready_came_and_not_when_it_was_read(scene: Any) -> None:
    scene.dispatcher.introduce(scene.arrival("w-1"))
    scene.clock.advance(3.0)
    scene.turns()

    scene.survey()
    scene.submit("j-1")

    assert scene.runs() == []


def test_clocks_that_differ_take_no_job_from_a_worker(scene: Any) -> None:
    """A heartbeat that another dispatcher stored is watched, not compared with our clock."""
    ahead = scene.another_dispatcher("d-2", clock_ahead=3600.0)
    scene.worker("w-1")
    scene.submit("j-1", timeout=100.0)

    for _ in range(20):
        scene.clock.advance(1.0)
        scene.beat("w-1", J1)
        scene.survey(ahead)
        finish(sweep.ring_alarms(ahead))
        scene.turns(ahead)

    assert scene.job("j-1").attempt == 1
    (worker,) = finish(scene.store.workers())
    assert not worker.is_dead


def test_a_worker_that_falls_silent_is_found_dead_by_a_clock_that_is_behind(scene: Any) -> None:
    behind = scene.another_dispatcher("d-2", clock_ahead=-3600.0)
    scene.worker("w-1")
    scene.submit("j-1")
    scene.worker("w-2", at=behind)

    for _ in range(11):
        scene.beat("w-2", at=behind)
        scene.survey(behind)
        scene.clock.advance(1.0)
    scene.survey(behind)

    assert scene.runs() == [("w-1", "j-1"), ("w-2", "j-1")]


def test_nothing_is_decided_on_a_survey_that_waited(scene: Any) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", at=other)
    scene.submit("j-1", at=other)
    scene.survey()
    scene.clock.advance(10.0)
    finish(sweep.survey(scene.dispatcher, scene.said))
    scene.beat("w-1", J1, at=other)
    scene.clock.advance(10.0)

    scene.turns()

    assert scene.job("j-1").attempt == 1


def test_a_run_of_another_dispatcher_is_timed_by_watching_it(scene: Any) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1")
    scene.submit("a", timeout=1.0)
    scene.clock.advance(6.5)
    finish(sweep.ring_alarms(other))
    scene.turns(other)
    assert scene.job("a").status is Status.IN_PROGRESS, "its clock may be ahead of ours"

    scene.clock.advance(6.5)
    finish(sweep.ring_alarms(other))
    scene.turns(other)

    assert scene.job("a").status is Status.FAILED


@pytest.mark.parametrize("ahead", [0.0, 30.0, 60.0])
def test_a_run_of_another_dispatcher_whose_clock_is_known_ends_in_time(
    scene: Any, ahead: float
) -> None:
    other = scene.another_dispatcher("d-2", clock_ahead=ahead)
    other.state.skews["d-1"] = ahead
    scene.worker("w-1")
    scene.submit("a", timeout=1.0)

    for seconds, status in ((5.0, Status.IN_PROGRESS), (1.5, Status.FAILED)):
        scene.clock.advance(seconds)
        finish(sweep.ring_alarms(other))
        scene.turns(other)
        assert scene.job("a").status is status


@pytest.mark.parametrize("ahead", [0.0, 60.0])
def test_a_run_of_a_clock_that_is_not_known_yet_is_left_alone_for_a_minute_at_most(
    scene: Any, ahead: float
) -> None:
    other = scene.another_dispatcher("d-2", clock_ahead=ahead)
    scene.worker("w-1")
    scene.submit("a", timeout=600.0)
    scene.clock.advance(606.0 - ahead)  # as long as it may take, by the other's clock

    for seconds, status in (
        (0.0, Status.IN_PROGRESS),
        (59.0, Status.IN_PROGRESS),
        (2.0, Status.FAILED),
    ):
        scene.clock.advance(seconds)
        finish(sweep.ring_alarms(other))
        scene.turns(other)
        assert scene.job("a").status is status


@pytest.mark.parametrize(("others", "attempt"), [(frozenset(), 1), (frozenset({"d-2"}), 2)])
def test_a_start_that_took_the_store_too_long_is_not_sent_where_others_may_have_missed_it(
    scene: Any, others: frozenset[str], attempt: int
) -> None:
    scene.worker("w-1")
    scene.dispatcher.state.others = others
    commit, delays = scene.store.commit, iter([2.0])

    async def slow_commit(batch: Any) -> Any:
        committed = await commit(batch)
        scene.clock.advance(next(delays, 0.0))
        return committed

    scene.store.commit = slow_commit
    scene.submit("j-1")

    assert [(worker, job.id, job.attempt) for worker, job in scene.said.jobs] == [
        ("w-1", "j-1", attempt)
    ]
    assert scene.job("j-1").losses == 0


def test_a_new_attempt_is_not_as_old_as_the_one_before(scene: Any) -> None:
    """A dispatcher that knew the first attempt learns of the second, which another started."""
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", at=other)
    scene.submit("j-1", at=other)
    scene.worker("w-1", held=[J1])
    scene.clock.advance(10.0)
    other.give_back("w-1", [J1], "returned")
    scene.turns(other)
    assert scene.job("j-1").attempt == 2

    scene.worker("w-1", held=[])

    assert scene.job("j-1").attempt == 2


def test_a_start_counts_from_when_it_was_written(scene: Any) -> None:
    """A heartbeat that came while the store was slow does not list it, of course."""
    scene.worker("w-1")
    commit, delays = scene.store.commit, iter([4.0])

    async def slow_commit(batch: Any) -> Any:
        if delay := next(delays, 0.0):
            scene.clock.advance(delay)
            scene.dispatcher.beat(HeartbeatReceived("w-1", frozenset(), 1, 2))
        return await commit(batch)

    scene.store.commit = slow_commit
    scene.submit("j-1")

    assert scene.job("j-1").attempt == 1


def test_the_first_word_after_a_silence_may_be_an_old_one(scene: Any) -> None:
    """It was stuck on a connection that its worker has closed since; a READY is on its way."""
    scene.worker("w-1")
    scene.clock.advance(1.0)
    scene.submit("j-1")
    scene.clock.advance(7.0)

    scene.beat("w-1")
    scene.beat("w-1")

    assert scene.job("j-1").attempt == 1
    scene.beat_for(3, "w-1")
    assert scene.job("j-1").attempt == 2, "by now it knows nothing of it for sure"


@pytest.mark.parametrize(("most_ahead", "attempt"), [(None, 1), (30.0, 1), (0.0, 2), (1.0, 2)])
def test_a_dispatcher_that_has_just_started_believes_clocks_that_it_knows(
    scene: Any, most_ahead: float | None, attempt: int
) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.clock.advance(11.0)
    successor = scene.another_dispatcher("d-2")
    successor.state.most_ahead = most_ahead
    scene.worker("w-2", at=successor)

    scene.survey(successor)

    assert scene.job("j-1").attempt == attempt


@pytest.mark.parametrize(("skew", "attempt"), [(None, 1), (0.0, 2), (4.0, 1)])
def test_a_run_is_as_old_as_a_clock_that_we_know_says(
    scene: Any, skew: float | None, attempt: int
) -> None:
    """Its dispatcher died before it sent the job; ours has just started."""
    dead = scene.another_dispatcher("d-2")
    scene.worker("w-1", at=dead)
    scene.submit("j-1", at=dead)
    scene.clock.advance(4.0)
    if skew is not None:
        scene.dispatcher.state.skews["d-2"] = skew
    scene.worker("w-1")

    scene.beat_for(1, "w-1")

    assert scene.job("j-1").attempt == attempt
