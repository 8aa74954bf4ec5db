"""Retry, order, leases, names: the small pure decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model.identity import RisingIds, is_name, timed_id
from shunter.model.job import Job, Status
from shunter.model.lease import LeaseTerms, WorkerLease, has_lapsed
from shunter.model.queue_order import PRIORITY_SPAN_SECONDS, alarm, rank
from shunter.model.retry import Retry, backoff

TERMS = LeaseTerms()
S = "the store"


def queued(created: float, priority: int = 0) -> Job:
    return Job(id="j", type="t", created=created, updated=created, priority=priority)


@given(
    retry=st.builds(
        Retry,
        limit=st.integers(0, 100),
        delay=st.floats(0, 1e6),
        factor=st.floats(1, 100),
        max_delay=st.floats(0, 1e6),
        jitter=st.floats(0, 1),
    ),
    failures=st.integers(1, 100_000),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_a_back_off_is_never_negative_and_never_over_its_maximum(
    retry: Retry, failures: int, jitter: float
) -> None:
    assert 0.0 <= backoff(retry, failures, jitter=jitter) <= retry.max_delay


@given(st.integers(1, 50))
def test_a_back_off_without_jitter_never_shrinks(failures: int) -> None:
    retry = Retry(delay=0.5, factor=2.0, max_delay=60.0, jitter=0.0)

    assert backoff(retry, failures, jitter=0.5) <= backoff(retry, failures + 1, jitter=0.5)


@given(st.floats(0, 4e9), st.floats(0.001, 1e6), st.integers(-1000, 1000))
def test_inside_one_priority_the_first_in_is_the_first_out(
    created: float, later: float, priority: int
) -> None:
    assert rank(queued(created, priority)) < rank(queued(created + later, priority))


def test_a_higher_priority_goes_first_but_a_long_wait_overtakes_it() -> None:
    patient = queued(created=0.0, priority=0)

    assert rank(queued(created=PRIORITY_SPAN_SECONDS - 1.0, priority=1)) < rank(patient)
    assert rank(queued(created=PRIORITY_SPAN_SECONDS + 1.0, priority=1)) > rank(patient)


def test_a_final_job_rings_no_alarm() -> None:
    job = Job(id="j", type="t", created=0, updated=0, status=Status.COMPLETED, wait_until=5.0)

    assert alarm(job) is None


def test_a_lease_counts_from_the_sending_of_the_last_answered_heartbeat() -> None:
    lease = WorkerLease(TERMS, now=0.0)
    first = lease.sent(now=1.0)
    lease.sent(now=2.0)

    lease.answered(first, S)

    assert not lease.is_over(now=5.9, stores=[S])
    assert lease.is_over(now=6.0, stores=[S])


def test_an_answer_to_an_unknown_heartbeat_renews_nothing() -> None:
    lease = WorkerLease(TERMS, now=0.0)

    lease.answered(77, S)

    assert lease.is_over(now=5.0, stores=[S])


def test_answers_that_overtake_each_other_never_shorten_a_lease() -> None:
    lease = WorkerLease(TERMS, now=0.0)
    first, second = lease.sent(now=1.0), lease.sent(now=2.0)

    lease.answered(second, S)
    lease.answered(first, S)

    assert not lease.is_over(now=6.9, stores=[S])


@given(st.lists(st.tuples(st.floats(0.01, 2.0), st.booleans()), max_size=200))
def test_a_worker_has_stopped_before_a_dispatcher_takes_over(
    beats: list[tuple[float, bool]],
) -> None:
    """The dispatcher's clock starts when it stores a heartbeat, which is after its sending."""
    lease, now, stored_at = WorkerLease(TERMS, now=0.0), 0.0, 0.0
    for gap, is_answered in beats:
        now += gap
        beat = lease.sent(now=now)
        stored_at = now
        if is_answered:
            lease.answered(beat, S)
        if has_lapsed(stored_at, TERMS, now=now):
            assert lease.is_over(now=now - TERMS.kill_within, stores=[S])
    silence = now
    while not has_lapsed(stored_at, TERMS, now=silence):
        silence += 0.1
    assert lease.is_over(now=silence - TERMS.kill_within, stores=[S])


def test_each_store_has_its_own_lease_and_only_those_with_jobs_count() -> None:
    lease = WorkerLease(TERMS, now=0.0)
    lease.answered(lease.sent(now=4.0), "one")

    assert not lease.is_over(now=6.0, stores=["one"])
    assert lease.is_over(now=6.0, stores=["one", "two"])
    assert not lease.is_over(now=60.0, stores=[])


def test_terms_that_would_let_two_run_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match="before a dispatcher takes them over"):
        LeaseTerms(worker_gives_up=9.0, kill_within=2.0)


@given(st.floats(0, 4e9), st.floats(0.002, 1e6), st.integers(0, 2**80), st.integers(0, 2**80))
def test_ids_sort_by_time_and_are_names(now: float, later: float, one: int, two: int) -> None:
    first, second = timed_id(now, one), timed_id(now + later, two)

    assert first < second
    assert is_name(first)
    assert len(first) == 26


@given(st.lists(st.tuples(st.floats(0, 4e9), st.integers(0, 2**80 - 1)), max_size=20))
def test_ids_of_one_client_rise_whatever_its_clock_does(made: list[tuple[float, int]]) -> None:
    ids = RisingIds()

    names = [ids.next(now, entropy) for now, entropy in made]

    assert names == sorted(set(names))
    assert all(is_name(name) and len(name) == 26 for name in names)


def test_an_id_of_the_same_millisecond_does_not_tell_the_next_one() -> None:
    one, other = RisingIds(), RisingIds()
    assert one.next(1.0, 7) == other.next(1.0, 7)

    assert one.next(1.0, 1 << 50) != other.next(1.0, 1 << 51)


@pytest.mark.parametrize("bad", ["", "-x", "a b", "a\n", "ä", "x" * 129, "a\0"])
def test_what_is_no_name(bad: str) -> None:
    assert not is_name(bad)
