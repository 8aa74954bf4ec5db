"""Which waiting jobs of a limited type start, on which places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model import lifecycle
from shunter.model.job import Job
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.lane_claim import (
    LANES_AT_ONCE,
    LanePlace,
    LaneState,
    WaitingJob,
    choose,
    rotated,
)
from shunter.model.place_guess import look_after
from shunter.model.queue_order import limit_place, total_place

NOW = 1000.0


def state(limits: JobLimits, **held: set[int]) -> LaneState:
    lanes = {f"tenant={name}": numbers for name, numbers in held.items() if name != "totals"}
    return LaneState(limits, lanes, held.get("totals", set()))


def waiting(*lanes: str, priority: int = 0) -> list[WaitingJob]:
    """Jobs in the order in which they came, each with its place there as number."""
    return [WaitingJob(f"tenant={lane}", at, at, priority) for at, lane in enumerate(lanes)]


def by_lane(jobs: list[WaitingJob]) -> list[WaitingJob]:
    return sorted(jobs, key=lambda job: (job.lane, job.rank, job.seq))


def chosen(limits: JobLimits, jobs: list[WaitingJob], wanted: int = 10, **held: set[int]):
    return choose(state(limits, **held), by_lane(jobs), wanted=wanted, now=NOW, deep=100)


BY_TENANT = JobLimits(limit=Limit(2, by="tenant", total=3))


def test_a_key_at_its_limit_holds_up_no_other() -> None:
    choice = chosen(BY_TENANT, waiting("a", "a", "b"), a={0, 1}, totals={0, 1})

    assert list(choice.starts) == [2]
    assert choice.starts[2].limit == 0
    assert choice.starts[2].total == 2


def test_the_total_holds_for_all_keys() -> None:
    choice = chosen(BY_TENANT, waiting("a", "b", "c", "d"))

    assert list(choice.starts) == [0, 1, 2]
    assert sorted(place.total for place in choice.starts.values()) == [0, 1, 2]


def test_a_limit_that_was_lowered_waits_until_enough_have_ended() -> None:
    lowered = JobLimits(limit=Limit(2, by="tenant"))

    assert not chosen(lowered, waiting("a"), a={1, 5}).starts
    assert chosen(lowered, waiting("a"), a={5}).starts[0].limit == 0


def test_without_turns_the_oldest_go_first() -> None:
    jobs = waiting("b", "a", "b", "a")

    assert list(chosen(JobLimits(limit=Limit(9, by="tenant")), jobs).starts) == [0, 1, 2, 3]


def test_with_turns_each_key_has_one_before_any_has_two() -> None:
    jobs = waiting("a", "a", "a", "a", "b", "c")

    assert list(chosen(JobLimits(fair="tenant"), jobs, wanted=4).starts) == [0, 4, 5, 1]


def test_a_higher_priority_goes_before_turns() -> None:
    first = WaitingJob("tenant=b", -100, 9, 1)

    choice = chosen(JobLimits(fair="tenant"), [*waiting("a", "a", "b"), first], wanted=2)

    assert list(choice.starts) == [9, 0]


def test_a_lane_without_a_token_waits_and_says_until_when() -> None:
    limits = JobLimits(rate=Rate(60, per=60, by="tenant"))
    lanes = state(limits)
    lanes.next_at["tenant=a"] = NOW + 7

    choice = choose(lanes, by_lane(waiting("a", "b", "b")), wanted=9, now=NOW, deep=9)

    assert list(choice.starts) == [1]
    assert choice.buckets == {"tenant=b": NOW - 0.5 + 60.5 / 60}
    assert choice.due == choice.buckets["tenant=b"]
    look = look_after(choice, lanes, ["tenant=a", "tenant=b"], None, now=NOW, before=None)
    assert look.due == choice.due


def test_a_rate_without_a_key_is_one_bucket_for_all() -> None:
    limits = JobLimits(rate=Rate(60, per=60), fair="tenant")

    choice = chosen(limits, waiting("a", "b"))

    assert list(choice.starts) == [0]
    assert list(choice.buckets) == [""]


def test_lanes_of_which_not_all_was_seen_are_looked_at_again() -> None:
    limits = JobLimits(limit=Limit(9, by="tenant"))

    def is_more(deep: int, wanted: int, **held: set[int]) -> bool:
        jobs = waiting("a", "a")
        return choose(state(limits, **held), jobs, wanted=wanted, now=NOW, deep=deep).is_more

    assert is_more(deep=2, wanted=5)
    assert not is_more(deep=3, wanted=5)
    assert not is_more(deep=2, wanted=2)
    assert not is_more(deep=2, wanted=5, a=set(range(7)))


def test_the_next_claim_begins_behind_the_lane_that_was_served() -> None:
    fair = state(JobLimits(fair="tenant"))
    choice = choose(fair, waiting("a"), wanted=1, now=NOW, deep=1)

    def after(lanes: list[str], last: str | None, before: str | None, of: LaneState) -> str | None:
        return look_after(choice, of, lanes, last, now=NOW, before=before).after

    assert after(["a", "b"], "a", None, fair) == "a"
    assert after(["a", "b"], None, "a", fair) == "a"
    plain = state(JobLimits(limit=Limit(1, by="tenant")))
    assert after(["a", "b"], "a", None, plain) is None
    many = [f"{n:03}" for n in range(LANES_AT_ONCE)]
    assert after(many, "005", None, plain) == "255"
    assert rotated(["a", "b", "c"], "b") == ["c", "a", "b"]
    assert rotated(["a", "b", "c"], None) == ["a", "b", "c"]


@given(
    lanes=st.lists(st.sampled_from("abcd"), max_size=40),
    per_key=st.integers(1, 4),
    total=st.integers(4, 9),
    held=st.dictionaries(st.sampled_from("abcd"), st.sets(st.integers(0, 5)), max_size=4),
    totals=st.sets(st.integers(0, 8)),
    wanted=st.integers(0, 12),
    first=st.integers(0, 100),
    fair=st.sampled_from(["", "tenant"]),
)
def test_whatever_is_taken_no_place_is_given_twice(
    lanes, per_key, total, held, totals, wanted, first, fair
) -> None:
    limits = JobLimits(limit=Limit(per_key, by="tenant", total=total), fair=fair)
    jobs = by_lane(waiting(*lanes))
    before = {f"tenant={name}": set(numbers) for name, numbers in held.items()}
    lanes_now = LaneState(limits, {k: set(v) for k, v in before.items()}, set(totals))

    choice = choose(lanes_now, jobs, wanted=wanted, now=NOW, deep=40, first=first)

    assert len(choice.starts) <= wanted
    lane_of = {job.seq: job.lane for job in jobs}
    taken = [(lane_of[seq], place.limit) for seq, place in choice.starts.items()]
    assert len(set(taken)) == len(taken)
    assert not any(number in before.get(lane, ()) for lane, number in taken)
    assert all(0 <= (number or 0) < per_key for _, number in taken)
    for lane in before | dict(taken):
        running = len(before.get(lane, ())) + sum(it == lane for it, _ in taken)
        assert running <= max(per_key, len(before.get(lane, ())))
    numbers = [place.total for place in choice.starts.values()]
    assert len(set(numbers)) == len(numbers)
    assert not totals.intersection(numbers)
    assert len(totals) + len(numbers) <= max(total, len(totals))


@pytest.mark.parametrize(
    "queued_again",
    [
        lambda job: lifecycle.lost(job, 1, "gone", now=NOW, jitter=0.0, max_losses=5),
        lambda job: lifecycle.returned(job, 1, "full", now=NOW),
    ],
)
def test_a_job_that_is_queued_again_has_no_places(queued_again) -> None:
    job = Job(id="j", type="t", created=NOW, updated=NOW, lane="tenant=a")
    claimed = lifecycle.claimed(job, dispatcher_id="d", now=NOW)
    occupying = lifecycle.occupying(claimed, LanePlace(1, 2))
    run = lifecycle.started(occupying, lifecycle.WorkerSlot("w"), now=NOW)
    assert (limit_place(run), total_place(run)) == ("t tenant=a 1", "t 2")

    for again in (queued_again(run), lifecycle.released(occupying, now=NOW)):
        assert again.execution.limit_place is again.execution.total_place is None
        assert limit_place(again) is total_place(again) is None


@pytest.mark.parametrize(
    ("limits", "has_room"),
    [
        (JobLimits(limit=Limit(5, by="tenant", total=9)), True),
        (JobLimits(limit=Limit(4, by="tenant", total=9)), False),  # of a there is one less
        (JobLimits(limit=Limit(5, by="tenant", total=7)), False),
        (JobLimits(), True),
        (JobLimits(fair="tenant"), False),
        (JobLimits(rate=Rate(1000)), False),
    ],
)
def test_lanes_have_room_if_any_of_them_could_have_all_that_starts(limits, has_room):
    state = LaneState(limits, {"tenant=a": {0}}, set(range(4)))

    assert state.has_room(["tenant=a", "tenant=b"], 4) is has_room
