"""Jobs that vanished between the queue and a shared state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shunter.worker.pool.unaccounted_runs import UnaccountedRuns


def test_a_missing_job_is_lost_after_two_looks_and_the_settling_time() -> None:
    missing = UnaccountedRuns(settle=0.1, looks=2)
    missing.died([7], survivors=[], cause="SIGKILL", now=0.0)

    assert missing.lost(now=0.05) == []
    assert missing.lost(now=0.1) == [(7, "SIGKILL")]
    assert not missing


def test_time_alone_is_not_enough_a_second_look_is_needed() -> None:
    missing = UnaccountedRuns(settle=0.1, looks=2)
    missing.died([7], survivors=[], cause="SIGKILL", now=0.0)

    assert missing.lost(now=5.0) == []
    assert missing.lost(now=5.0) == [(7, "SIGKILL")]


def test_a_job_that_turns_up_is_not_lost() -> None:
    missing = UnaccountedRuns()
    missing.died([7, 8], survivors=[], cause="SIGKILL", now=0.0)
    missing.found(7)
    missing.lost(now=0.1)

    assert missing.lost(now=0.2) == [(8, "SIGKILL")]


def test_nothing_is_lost_while_a_survivor_may_still_show_it() -> None:
    missing = UnaccountedRuns()
    missing.died([7], survivors=[100, 101], cause="SIGKILL", now=0.0)
    missing.cleared(100)

    assert [missing.lost(now=now) for now in (1.0, 2.0, 3.0)] == [[], [], []]
    assert missing.suspects == {101}

    missing.cleared(101)
    assert missing.lost(now=4.0) == [(7, "SIGKILL")]


def test_a_death_that_took_nothing_leaves_nothing_to_look_for() -> None:
    missing = UnaccountedRuns()
    missing.died([], survivors=[100], cause="SIGKILL", now=0.0)

    assert not missing


def test_two_deaths_are_looked_into_apart() -> None:
    missing = UnaccountedRuns()
    missing.died([7], survivors=[], cause="first", now=0.0)
    missing.lost(now=0.05)
    missing.died([8], survivors=[], cause="second", now=0.05)

    assert missing.lost(now=0.1) == [(7, "first")]
    assert missing.lost(now=0.2) == [(8, "second")]


@given(
    st.sets(st.integers(min_value=1, max_value=20)),
    st.sets(st.integers(min_value=1, max_value=20)),
    st.sets(st.integers(min_value=100, max_value=105)),
)
def test_exactly_what_never_turns_up_is_lost_once_all_are_cleared(
    keys: set[int], found: set[int], survivors: set[int]
) -> None:
    missing = UnaccountedRuns()
    missing.died(keys, survivors=survivors, cause="c", now=0.0)
    for key in found:
        missing.found(key)
    for child in survivors:
        assert missing.lost(now=1.0) == []
        missing.cleared(child)

    lost = [key for _ in range(3) for key, _ in missing.lost(now=1.0)]

    assert lost == sorted(keys - found)
    assert not missing
