"""A dispatcher, and peers that know only UDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from system.udp_peers import UdpPeer
from system.yard import PATIENCE, Station, Yard


@pytest.fixture
def task_timeout() -> float:
    """How long a calculator may take; some tests know better."""
    return 60.0


@pytest.fixture
def placed_within() -> float:
    """How long a task may wait for a calculator; some tests know better."""
    return PATIENCE


@pytest.fixture
def confirm_timeout() -> float:
    """How long a peer may take to confirm; some tests know better."""
    return 10.0


@pytest.fixture
def station(
    yard: Yard, task_timeout: float, placed_within: float, confirm_timeout: float
) -> Station:
    return yard.dispatcher(
        udp__confirm_timeout=confirm_timeout,
        udp__timeout_task_placement=placed_within,
        udp__task_timeout=task_timeout,
        udp__heartbeat_timeout=60.0,
    )


@pytest.fixture
def peer(station: Station) -> Iterator[Callable[[], UdpPeer]]:
    made: list[UdpPeer] = []

    def make() -> UdpPeer:
        made.append(UdpPeer(station))
        return made[-1]

    yield make
    for each in made:
        each.close()
