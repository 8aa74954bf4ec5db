"""Keys that `shunter key` made, over UDP: our calculator and our client, until one is revoked."""

from __future__ import annotations

import pytest

from shunter import JobRefused, UdpClient, Unreachable
from system.keyed import KeyedYard
from system.yard import PATIENCE, WITNESS_APP, Yard, until


def test_a_client_and_a_calculator_use_their_keys_until_these_are_revoked(yard: Yard) -> None:
    keyed = KeyedYard(yard, keys={"ann": ["client"], "calc": ["worker"]})
    address = "127.0.0.1", keyed.station.udp_port
    where, key_file = f"127.0.0.1:{address[1]}", str(keyed.file("calc"))
    config = yard.config("calculator", {"auth.key_file": key_file, "worker.max_jobs": 1})
    words = ("calculator", "--app", WITNESS_APP, "--dispatcher", where, "--config", str(config))
    yard.process(words, "calculator")

    with UdpClient(address, key_file=keyed.file("ann"), timeout=PATIENCE) as client:
        assert client.submit("add", 1, 2).result(PATIENCE) == 3
    with (
        UdpClient(address, key_file=keyed.file("calc"), timeout=PATIENCE) as worker,
        pytest.raises(JobRefused, match="'calc' may not add tasks"),
    ):
        worker.submit("add", 1, 2)
    with UdpClient(address, timeout=0.5) as nobody, pytest.raises(Unreachable):
        nobody.submit("add", 1, 2)

    keyed.key("revoke", "ann")

    def is_unheard() -> bool:
        with UdpClient(address, key_file=keyed.file("ann"), timeout=0.5) as client:
            try:
                client.submit("add", 1, 2)
            except Unreachable:
                return True
            return False

    until(is_unheard)
