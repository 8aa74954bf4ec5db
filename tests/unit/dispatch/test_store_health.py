"""When a store counts as failing, and when it is well again."""

from __future__ import annotations

import pytest

from shunter.dispatch.store_health import FAILING_SECONDS, STALLED_SECONDS, StoreHealth
from shunter.errors import StoreError


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(health: StoreHealth, *part: str, reason: str = "the disk is full") -> None:
    with pytest.raises(StoreError), health.observed(*part):
        raise StoreError(reason)


def test_a_moments_fault_is_nobodys_business() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    fail(health)
    clock.now += FAILING_SECONDS / 2

    assert health.fault() == ""


def test_what_fails_for_a_while_is_told_until_it_works() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    fail(health)
    clock.now += FAILING_SECONDS
    fail(health, reason="the disk is still full")

    assert health.fault() == "the disk is still full"
    with health.observed():
        pass
    assert health.fault() == ""


def test_reads_that_work_do_not_speak_for_writes_that_fail() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    fail(health)
    clock.now += FAILING_SECONDS
    with health.observed("sweep"):
        pass

    assert health.fault() == "the disk is full"


def test_a_turn_that_hears_nothing_for_long_is_a_fault() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    with health.observed():
        clock.now += STALLED_SECONDS
        assert "has not answered for 5 s" in health.fault()
    assert health.fault() == ""


def test_a_sweep_may_take_its_time() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    with health.observed("sweep"):
        clock.now += STALLED_SECONDS
        assert health.fault() == ""


def test_an_error_of_another_kind_is_no_fault_of_the_store() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    with pytest.raises(ValueError, match="ours"), health.observed():
        raise ValueError("ours")
    clock.now += FAILING_SECONDS

    assert health.fault() == ""
