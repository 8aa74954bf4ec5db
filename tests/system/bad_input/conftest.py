"""Fixtures of the tests with bad input: a dispatcher, and a good client that must not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shunter.client import Client
from system.full_peers import FullPeers
from system.plain_peers import PlainPeers
from system.yard import PATIENCE, Station, Yard

LIMIT = 1024 * 1024


@pytest.fixture(scope="module")
def shared_station(shared_yard: Yard) -> Station:
    made = shared_yard.dispatcher(zmq__max_message_bytes=LIMIT)
    shared_yard.worker(made)
    return made


@pytest.fixture
def station(shared_station: Station) -> Station:
    """The dispatcher, started again where an earlier test has brought it down."""
    return shared_station if shared_station.process.is_alive else shared_station.start()


@pytest.fixture
def client(station: Station) -> Iterator[Client]:
    """A good client; after each test it is served as before."""
    with Client(station.frontend, timeout=PATIENCE) as good:
        dispatcher_id = good.standing().dispatcher_id
        yield good
        assert good.submit("add", 20, 22).result(PATIENCE) == 42
        assert good.standing().dispatcher_id == dispatcher_id, "the dispatcher was restarted"
        assert station.process.is_alive


@pytest.fixture
def plain(station: Station) -> Iterator[PlainPeers]:
    made = PlainPeers(station.frontend, station.backend)
    yield made
    made.close()


@pytest.fixture
def full(station: Station) -> Iterator[FullPeers]:
    made = FullPeers(station.backend)
    yield made
    made.close()


Count = Callable[[str], int]


@pytest.fixture
def count(client: Client) -> Count:
    """How much a counter has risen since the test began."""
    before = client.standing().counters
    return lambda name: client.standing().counters.get(name, 0) - before.get(name, 0)
