"""Why a child died, in words."""

from __future__ import annotations

from signal import SIGKILL, SIGSEGV, SIGTERM, Signals

import pytest

from shunter.worker.pool.exits import cause_of_death, oom_kills, signal_name


def test_a_kill_from_outside_is_named_by_its_signal() -> None:
    assert cause_of_death(-SIGKILL) == "the process was ended by SIGKILL"
    assert cause_of_death(-SIGSEGV) == "the process was ended by SIGSEGV"


def test_an_exit_by_itself_names_the_code() -> None:
    assert cause_of_death(7) == "the process exited by itself with code 7"


def test_a_kill_while_the_kernel_ran_out_of_memory_is_out_of_memory() -> None:
    assert cause_of_death(-SIGKILL, oom_kills=1).startswith("out of memory")


def test_our_own_kill_is_ours_even_when_memory_was_short() -> None:
    assert cause_of_death(-SIGKILL, by_us="killed to end job 1", oom_kills=1) == (
        "killed to end job 1"
    )


@pytest.mark.parametrize("returncode", [-SIGSEGV, -SIGTERM, 1])
def test_only_a_sigkill_is_laid_to_memory_or_to_us(returncode: int) -> None:
    cause = cause_of_death(returncode, by_us="ours", oom_kills=3)

    assert "memory" not in cause
    assert "ours" not in cause


def test_the_counters_of_host_and_group_are_added_up() -> None:
    vmstat = "pgfault 12\noom_kill 3\noom_kill_disable 9\n"
    events = "low 0\nmax 4\noom 2\noom_kill 2\noom_group_kill 0\n"

    assert oom_kills(vmstat, events, "") == 5


def test_every_signal_has_a_name() -> None:
    known = {member.value: member.name for member in Signals}

    assert {number: signal_name(number) for number in range(1, 65)} == {
        number: known.get(number, f"signal {number}") for number in range(1, 65)
    }
