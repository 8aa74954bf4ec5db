"""Dispatchers as the page lists them, whatever their clocks show."""

from __future__ import annotations

import pytest

from shunter.model.presence import ALIVE_SECONDS, Presence
from shunter.page.overview import DispatcherRow, dispatcher_rows

NOW = 1_800_000_000.0


def listed(clock: float, skews: dict[str, float]) -> DispatcherRow:
    other = Presence(dispatcher_id="other", clock=clock, host="there", uptime=1.0)
    [row] = dispatcher_rows([other], [], skews, now=NOW)
    return row


@pytest.mark.parametrize("behind", [60.0, 0.0, -60.0])
def test_one_that_has_just_written_is_here_whatever_its_clock_shows(behind: float) -> None:
    row = listed(NOW - behind - 1.0, {"other": behind})

    assert row.is_alive
    assert row.last_seen == NOW - 1.0
    assert row.behind == behind


@pytest.mark.parametrize("behind", [60.0, 0.0, -60.0])
def test_one_that_has_long_been_silent_is_gone_whatever_its_clock_shows(behind: float) -> None:
    assert not listed(NOW - behind - ALIVE_SECONDS, {"other": behind}).is_alive


def test_of_a_clock_that_was_not_compared_nothing_is_said() -> None:
    assert listed(NOW - 1.0, {}).behind is None
