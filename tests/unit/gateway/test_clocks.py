"""A dispatcher's clock goes on when somebody sets the time of day anew."""

from __future__ import annotations

import pytest

from shunter.gateway.clocks import SteadyClock, host_clock


def test_setting_the_time_of_day_does_not_move_a_steady_clock() -> None:
    wall, uptime = [1000.0], [5.0]
    clock = SteadyClock(lambda: wall[0], lambda: uptime[0])
    wall[0], uptime[0] = 4601.0, 6.0

    assert clock() == 1001.0
    assert clock.jumped_by == pytest.approx(3600.0)


def test_all_processes_of_a_host_name_its_clock_alike() -> None:
    assert host_clock().id == host_clock().id
