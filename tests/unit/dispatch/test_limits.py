"""How a dispatcher goes about types with limits: what it claims, and when it looks again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shunter.dispatch import sweep
from shunter.dispatch.limit_book import LimitBook
from shunter.dispatch.limit_changes import change_limits, shown_limits
from shunter.errors import LimitsRefused
from shunter.model.job import Status
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.limits_record import LimitsChange, LimitsRecord, after_change
from shunter.model.report import Held, Report
from shunter.model.worker import Handler, WorkerKind
from shunter.testing.finish import finish
from unit.dispatch.conftest import Scene, a_worker

TWO = JobLimits(limit=Limit(2, by="tenant"))


def limited(
    scene: Scene, limits=TWO, name="w-1", *, slots=9, at=None, started=0.0, more=()
) -> None:
    arrival = scene.arrival(name, "t", *more, slots=slots, at=at)
    handlers = tuple(
        Handler(it.type, limits=limits if it.type == "t" else None)
        for it in arrival.worker.handlers
    )
    worker = replace(arrival.worker, handlers=handlers, started=started)
    (at or scene.dispatcher).introduce(replace(arrival, worker=worker))
    scene.turns(at)


def submit(scene: Scene, *ids: str, tenant: str = "a", **fields) -> None:
    receipts = scene.submit(*ids, keys={"tenant": tenant}, **fields)
    assert not any(receipt.reason for receipt in receipts)


def sent(scene: Scene) -> list[str]:
    return [job_id for _, job_id in scene.runs()]


def done(scene: Scene, job_id: str) -> None:
    scene.report("w-1", Report(job_id, scene.job(job_id).attempt, result=b"\xc0"))


def test_no_more_run_than_the_limit_and_the_next_starts_when_one_ends(scene: Scene) -> None:
    limited(scene)
    submit(scene, "a1", "a2", "a3", "a4")
    submit(scene, "b1", tenant="b")

    assert sent(scene) == ["a1", "a2", "b1"]
    done(scene, "a2")
    assert sent(scene) == ["a1", "a2", "b1", "a3"]
    assert not scene.dispatcher.has_work, "a full key keeps the dispatcher busy"


def test_a_job_that_is_lost_frees_its_place(scene: Scene) -> None:
    limited(scene, JobLimits(limit=Limit(1)))
    submit(scene, "one", "two")

    scene.dispatcher.give_back("w-1", [Held("one", 1)], "full")
    scene.turns()

    assert scene.job("one").status is Status.IN_PROGRESS
    assert scene.job("one").attempt == 2
    assert scene.job("two").status is Status.QUEUED


def test_jobs_that_came_before_the_limits_keep_to_them(scene: Scene) -> None:
    submit(scene, "a1", "a2", "a3")

    limited(scene)

    assert sent(scene) == ["a1", "a2"]


PLENTY = JobLimits(limit=Limit(1000, by="tenant", total=5000))


def claims_of(scene: Scene) -> list[int]:
    """From now on, how many claims each commit has."""
    counts: list[int] = []
    commit = scene.store.commit

    async def counted(batch):
        counts.append(len(batch.claims))
        return await commit(batch)

    scene.store.commit = counted
    return counts


def test_while_there_is_plenty_of_room_new_jobs_start_as_they_are_stored(scene: Scene) -> None:
    limited(scene, PLENTY, slots=50)
    submit(scene, "a1", tenant="a")  # by a claim, which looks at all places
    claims = claims_of(scene)

    submit(scene, "a2", "a3", tenant="a")
    submit(scene, "b1", tenant="b")
    done(scene, "a2")

    assert sent(scene) == ["a1", "a2", "a3", "b1"]
    assert not any(claims), "nobody waits, so nobody has to look"
    places = [scene.job(it).execution for it in ("a1", "a3", "b1")]
    assert len({it.total_place for it in places}) == 3
    assert {it.limit_place for it in places} < set(range(1000))


def test_after_a_pause_new_jobs_start_as_they_are_stored(scene: Scene) -> None:
    limited(scene, PLENTY, slots=50)
    submit(scene, "a1", tenant="a")  # by a claim, which looks at all places
    done(scene, "a1")
    scene.clock.advance(3600.0)
    scene.beat("w-1")
    claims = claims_of(scene)

    submit(scene, "a2", tenant="a")

    assert sent(scene) == ["a1", "a2"]
    assert not any(claims), "nobody has to look"


def test_places_that_jobs_have_left_go_to_new_jobs_without_a_look(scene: Scene) -> None:
    limited(scene, JobLimits(limit=Limit(20, by="tenant")), slots=50)
    submit(scene, "first", tenant="a")
    done(scene, "first")
    claims = claims_of(scene)
    names = [f"a{number}" for number in range(30)]  # three times as many as are given away

    for name in names:
        submit(scene, name, tenant="a")
        done(scene, name)

    assert sent(scene) == ["first", *names]
    assert not any(claims)


def test_a_new_job_whose_place_is_taken_waits_for_a_claim(scene: Scene) -> None:
    limited(scene, PLENTY, slots=50)
    submit(scene, "a1", tenant="a")
    taken = scene.job("a1").execution.total_place
    assert taken is not None
    scene.dispatcher.state.limits._guesses._first["t"] = 5000 + taken

    submit(scene, "b1", "b2", tenant="b")

    assert sent(scene) == ["a1", "b2", "b1"]
    assert scene.dispatcher.counters["jobs_accepted"] == 3


def test_what_another_dispatcher_ended_is_noticed_by_the_next_look(scene: Scene) -> None:
    other = scene.another_dispatcher("d-2")
    limited(scene, JobLimits(limit=Limit(1)))
    limited(scene, JobLimits(limit=Limit(1)), "w-2", at=other)
    submit(scene, "one", "two")
    scene.report("w-1", Report("one", 1, result=b"\xc0"), at=other)

    other.expect_waiting()
    scene.turns(other)

    assert sorted(sent(scene)) == ["one", "two"]


def test_other_types_get_their_share_of_the_room(scene: Scene) -> None:
    limited(scene, slots=1, more=("plain",))
    submit(scene, "a1", "a2", "a3")
    scene.submit("p1", "p2", type="plain")

    for job_id in ("a1", "p1", "a2"):
        done(scene, job_id)

    assert sorted(sent(scene)) == ["a1", "a2", "p1", "p2"]


def test_a_token_is_waited_for_and_then_the_dispatcher_looks_again(scene: Scene) -> None:
    limited(scene, JobLimits(rate=Rate(6, per=60)))
    submit(scene, "one", "two")
    assert sent(scene) == ["one"]

    scene.clock.advance(8.0)
    scene.dispatcher.look_for_tokens()
    assert not scene.dispatcher.has_work
    scene.clock.advance(2.0)
    scene.dispatcher.look_for_tokens()
    scene.turns()

    assert sent(scene) == ["one", "two"]


def test_a_dispatcher_without_the_declaration_learns_it_from_the_store(scene: Scene) -> None:
    limited(scene, started=5.0)
    finish(sweep.share_limits(scene.dispatcher))
    other = scene.another_dispatcher("d-2")
    finish(sweep.share_limits(other))
    scene.worker("w-2", at=other, slots=9)

    scene.submit("a1", "a2", "a3", keys={"tenant": "a"}, at=other)

    assert sent(scene) == ["a1", "a2"]


def test_shared_workers_keep_to_limits_too(scene: Scene) -> None:
    limited(scene, slots=0)
    finish(scene.store.put_workers([a_worker("w-http", kind=WorkerKind.HTTP, slots=9)]))
    submit(scene, "a1", "a2", "a3")
    scene.survey()

    under_way = [job_id for job_id in ("a1", "a2", "a3") if scene.job(job_id).status != "q"]

    assert under_way == ["a1", "a2"]


def test_the_worker_that_was_started_later_says_what_counts(scene: Scene) -> None:
    book, old, new = LimitBook(), a_worker("w-old", "t"), a_worker("w-new", "t")
    old = replace(old, handlers=(Handler("t", limits=TWO),), started=1.0)
    new = replace(new, handlers=(Handler("t", limits=JobLimits(limit=Limit(7))),), started=2.0)

    book.declare(old)
    assert book.take_notices() == []
    book.declare(new)
    [notice] = book.take_notices()
    book.declare(old)
    book.declare(new)

    assert book.of("t") == JobLimits(limit=Limit(7))
    assert set(notice.workers) == {"w-old", "w-new"}
    assert "those of w-new" in notice.text
    assert book.take_notices() == [], "it is told again and again"


def test_a_worker_whose_limits_lose_to_what_another_dispatcher_knows_is_told() -> None:
    here, there = LimitBook(), LimitBook()
    old = replace(a_worker("w-old", "t"), handlers=(Handler("t", limits=TWO),), started=1.0)
    seven = JobLimits(limit=Limit(7))
    new = replace(a_worker("w-new", "t"), handlers=(Handler("t", limits=seven),), started=2.0)
    here.declare(old)
    there.declare(new)

    here.learn(there.unwritten)

    [notice] = here.take_notices()
    assert set(notice.workers) == {"w-old", "w-new"}
    assert "those of w-new" in notice.text
    assert here.of("t") == seven


def test_both_workers_that_declare_different_limits_are_told_once(scene: Scene) -> None:
    limited(scene, name="w-old", started=1.0)
    limited(scene, JobLimits(limit=Limit(7)), name="w-new", started=2.0)

    [notice] = finish(sweep.share_limits(scene.dispatcher))
    assert finish(sweep.share_limits(scene.dispatcher)) == []

    assert sorted(scene.said.notes) == [("w-new", notice), ("w-old", notice)]


def test_a_later_worker_without_limits_takes_them_away_but_lanes_are_still_found(
    scene: Scene,
) -> None:
    limited(scene, JobLimits(limit=Limit(1, by="tenant")), started=1.0)
    submit(scene, "a1", "a2", "a3")
    assert sent(scene) == ["a1"]

    limited(scene, None, "w-2", started=2.0)

    assert sent(scene) == ["a1", "a2", "a3"]


def test_of_two_dispatchers_that_declare_at_once_the_later_worker_counts(scene: Scene) -> None:
    other = scene.another_dispatcher("d-2")
    limited(scene, JobLimits(limit=Limit(7)), "w-1", started=5.0)
    limited(scene, TWO, "w-2", at=other, started=9.0)
    for dispatcher in (scene.dispatcher, other, scene.dispatcher, other, scene.dispatcher):
        finish(sweep.share_limits(dispatcher))
        scene.turns(dispatcher)

    assert scene.dispatcher.state.limits.of("t") == other.state.limits.of("t") == TWO
    [shown] = finish(shown_limits(scene.store))
    assert (shown.declared_by, shown.limits) == ("w-2", TWO)


def test_a_change_counts_before_the_declaration_until_it_is_taken_back(scene: Scene) -> None:
    limited(scene)
    finish(sweep.share_limits(scene.dispatcher))
    submit(scene, "a1", "a2", "a3", "a4")

    finish(change_limits(scene.store, "t", LimitsChange(limit=3)))
    finish(sweep.share_limits(scene.dispatcher))
    scene.turns()
    assert sent(scene) == ["a1", "a2", "a3"]
    [shown] = finish(shown_limits(scene.store))
    assert (shown.is_changed, shown.declared) == (True, TWO)
    assert [(it.lane, it.running, it.waiting) for it in shown.lanes] == [("tenant=a", 3, 1)]

    back = finish(change_limits(scene.store, "t", LimitsChange(is_default=True)))
    assert (back.is_changed, back.limits) == (False, TWO)


def test_a_change_that_can_not_be_is_refused(scene: Scene) -> None:
    for change, field in (
        (LimitsChange(limit=-1), "limit.at_once"),
        (LimitsChange(per=5.0), "rate.count"),
        (LimitsChange(fair="no key"), "fair"),
        (LimitsChange(), "change"),
        (LimitsChange(by="tenant"), "by"),
        (LimitsChange(total=5, by="tenant"), "by"),
    ):
        with pytest.raises(LimitsRefused) as refused:
            finish(change_limits(scene.store, "t", change))
        assert refused.value.field == field
    assert finish(shown_limits(scene.store)) == []


def test_parts_that_are_not_named_stay_as_they_are() -> None:
    before = JobLimits(
        limit=Limit(5, by="tenant", total=40), rate=Rate(60, per=60, by="tenant"), fair="tenant"
    )

    def after(**change) -> JobLimits:
        return after_change(before, LimitsChange(**change))

    assert after(limit=10) == replace(before, limit=Limit(10, by="tenant", total=40))
    assert after(total=0) == replace(before, limit=Limit(5, by="tenant"))
    assert after(limit=0) == replace(before, limit=Limit(total=40))
    assert after(rate=5) == replace(before, rate=Rate(5, per=60, by="tenant"))
    assert after(rate=0, fair="") == JobLimits(limit=before.limit)
    assert after(by="user") == JobLimits(
        limit=Limit(5, by="user", total=40), rate=Rate(60, per=60, by="user"), fair="user"
    )
    assert after_change(JobLimits(), LimitsChange(limit=3)) == JobLimits(limit=Limit(3))
    by_user = after_change(JobLimits(), LimitsChange(limit=3, rate=9, by="user"))
    assert by_user == JobLimits(limit=Limit(3, by="user"), rate=Rate(9, by="user"))


def test_an_older_declaration_changes_nothing() -> None:
    record = LimitsRecord().declares(TWO, worker_id="w-2", started=2.0)

    assert record.revision == 1
    assert record.declares(JobLimits(), worker_id="w-1", started=1.0) is record
    assert record.declares(TWO, worker_id="w-3", started=3.0) is record
