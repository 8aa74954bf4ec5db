"""What a client takes for an address, and what it says to anything else."""

from __future__ import annotations

import threading

import pytest

from shunter import Client
from shunter.client.addresses import DEFAULT_ADDRESS, checked_addresses
from shunter.errors import SettingsError


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("tcp://127.0.0.1:7760", "tcp://127.0.0.1:7760"),
        ("127.0.0.1:7760", "tcp://127.0.0.1:7760"),
        ("some-host.example:7760", "tcp://some-host.example:7760"),
        ("[::1]:7760", "tcp://[::1]:7760"),
        ("ipc:///run/shunter", "ipc:///run/shunter"),
    ],
)
def test_a_host_with_a_port_is_an_address(given: str, taken: str) -> None:
    assert checked_addresses((given,)) == (taken,)


def test_without_an_address_it_is_this_host() -> None:
    assert checked_addresses(()) == (DEFAULT_ADDRESS,)


@pytest.mark.parametrize(
    "given",
    ["", "127.0.0.1", "tcp://127.0.0.1", "host:0", "host:70000", "http://host:1", "host:port",
     "tcp://host:1/path", "::1:7760", "ipc://"],
)  # fmt: skip
def test_anything_else_is_refused_at_once_with_what_to_write(given: str) -> None:
    before = threading.active_count()

    with pytest.raises(SettingsError, match="allowed: tcp://HOST:PORT, HOST:PORT"):
        Client(given)

    assert threading.active_count() == before
