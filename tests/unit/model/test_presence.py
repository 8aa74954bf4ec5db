"""How clocks are compared."""

from __future__ import annotations

import pytest

from shunter.model.presence import Presence, Skews


def presence(name: str, clock: float, host: str = "h", uptime: float = 0.0) -> Presence:
    return Presence(dispatcher_id=name, clock=clock, host=host, uptime=uptime)


def test_on_one_host_the_difference_is_exact_however_old_the_word_is() -> None:
    own = presence("d-1", clock=1030.0, uptime=50.0)
    gone_since_long = presence("d-2", clock=600.0, uptime=-350.0)

    assert Skews().look(own, [own, gone_since_long], now=1030.0).skews == {"d-2": 30.0}


def test_of_another_host_nothing_is_known_until_it_writes_again() -> None:
    skews, own = Skews(), presence("d-1", clock=1000.0)

    assert skews.look(own, [presence("d-2", 990.0, "other")], now=1000.0).skews == {}
    assert skews.look(own, [presence("d-2", 990.0, "other")], now=1005.0).skews == {}
    assert skews.look(own, [presence("d-2", 1000.0, "other")], now=1010.0).skews == {"d-2": 10.0}


def test_the_least_difference_seen_is_the_nearest_to_the_truth() -> None:
    """Words from a clock that is 30 s behind, which take a while to arrive."""
    skews, own = Skews(), presence("d-1", clock=0.0)
    known = {}
    for look, delay in enumerate([0.5, 4.0, 0.1, 2.0]):
        now = 1000.0 + 5.0 * look
        known = skews.look(own, [presence("d-2", now - 30.0 - delay, "other")], now=now).skews

    assert known == {"d-2": pytest.approx(30.1)}


def test_who_is_gone_from_the_list_is_forgotten() -> None:
    skews, own = Skews(), presence("d-1", clock=0.0)
    for clock in (1.0, 2.0):
        skews.look(own, [presence("d-2", clock, "other")], now=clock)
    assert skews.look(own, [], now=9.0).skews == {}

    assert skews.look(own, [presence("d-2", 10.0, "other")], now=10.0).skews == {}


def test_who_does_not_write_any_more_is_not_alive() -> None:
    skews, own = Skews(), presence("d-1", clock=0.0)
    there = [presence("d-2", 1.0), presence("d-3", 1.0, "other")]
    assert skews.look(own, there, now=0.0).alive == {"d-2", "d-3"}

    assert skews.look(own, [presence("d-2", 2.0), there[1]], now=30.0).alive == {"d-2"}


def test_how_far_ahead_we_may_be_is_known_only_if_all_clocks_are() -> None:
    skews, own = Skews(), presence("d-1", clock=1000.0, uptime=10.0)
    behind = presence("d-2", clock=970.0, uptime=10.0)
    elsewhere = presence("d-3", clock=1000.0, host="other")

    assert skews.look(own, [own], now=1000.0).most_ahead == 0.0
    assert skews.look(own, [own, behind], now=1000.0).most_ahead == 30.0
    assert skews.look(own, [own, behind, elsewhere], now=1000.0).most_ahead is None
