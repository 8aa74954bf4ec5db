"""Which address a worker listens on, and the way from one worker to another."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from shunter.errors import FlowError
from shunter.flow.runners.engines.deployer import check_nodes
from shunter.flow.runners.engines.engine import Engine
from shunter.flow.runners.engines.network import (
    InboxAddress,
    Way,
    ipc_endpoint,
    is_loopback,
    preferred_address,
    sweep_inboxes,
    way_to,
)

OWN = ["127.0.0.1", "10.10.0.7", "10.1.0.7", "192.168.1.5"]


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("127.0.0.0/8", "127.0.0.1"),
        ("10.1.0.0/16", "10.1.0.7"),
        ("10.1.0.9/16", "10.1.0.7"),
        ("10.1.", "10.1.0.7"),
        ("10.1", "10.1.0.7"),
        ("192.168.1.5", "192.168.1.5"),
        ("192.168.1.5/32", "192.168.1.5"),
    ],
)
def test_the_address_in_the_preferred_network_is_chosen(network: str, expected: str) -> None:
    assert preferred_address(network, OWN) == expected


@pytest.mark.parametrize("network", ["10.2.0.0/16", "10.2.", "1", "192.168.1.50"])
def test_a_host_that_is_not_in_the_network_names_what_it_has(network: str) -> None:
    with pytest.raises(FlowError, match=r"no interface of this host .* it has 127.0.0.1, 10.10"):
        preferred_address(network, OWN)


@pytest.mark.parametrize("network", ["ten/8", "10.1.0.0/99"])
def test_what_is_no_network_is_refused(network: str) -> None:
    with pytest.raises(FlowError, match=r"is no network: .* write it as 10.1.0.0/16"):
        preferred_address(network, OWN)


@pytest.mark.parametrize(
    ("inbox", "expected"),
    [
        (InboxAddress("10.1.0.7", 50001, 0), Way.QUEUE),
        (InboxAddress("10.1.0.7", 50002, 1), Way.IPC),
        (InboxAddress("10.1.0.8", 50001, 2), Way.TCP),
    ],
    ids=["this process", "this host", "another host with the same port"],
)
def test_the_way_to_an_inbox_is_the_shortest(inbox: InboxAddress, expected: Way) -> None:
    assert way_to(inbox, here={50001}, hosts=OWN) is expected


def test_an_inbox_of_a_port_has_one_place_on_its_host() -> None:
    assert ipc_endpoint("127.0.0.1", 50001).endswith("/127.0.0.1/inbox_50001")


def test_engines_are_put_in_the_order_of_their_numbers() -> None:
    assert check_nodes({"b": (1, 3), "c": (2, 3), "a": (0, 3)}) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({"a": (0, 2)}, "some are of 2 nodes"),
        ({"a": (0, 2), "b": (0, 2)}, "nobody is node 1 and several are node 0"),
        ({"a": (1, 2), "b": (2, 2)}, "nobody is node 0"),
        ({"a": (0, 3), "b": (1, 3), "c": (1, 2)}, "nobody is node 2 and several are node 1"),
    ],
)
def test_missing_and_doubled_numbers_are_named(
    found: dict[str, tuple[int, int]], fault: str
) -> None:
    with pytest.raises(FlowError, match=fault):
        check_nodes(found)


def test_what_killed_engines_left_is_swept_and_what_listens_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    paths = [Path(ipc_endpoint("127.0.0.1", port).removeprefix("ipc://")) for port in (1, 2)]
    with socket.socket(socket.AF_UNIX) as alive, socket.socket(socket.AF_UNIX) as dead:
        alive.bind(str(paths[0]))
        alive.listen()
        dead.bind(str(paths[1]))
        dead.close()

        assert sweep_inboxes("127.0.0.1") == 1

        assert [path.exists() for path in paths] == [True, False]


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("tcp://127.0.0.1:5570", True),
        ("tcp://localhost:*", True),
        ("ipc:///tmp/x", True),
        ("tcp://0.0.0.0:5570", False),
        ("tcp://*:5570", False),
        ("tcp://10.1.0.1:5570", False),
    ],
)
def test_who_reaches_an_endpoint(endpoint: str, expected: bool) -> None:
    assert is_loopback(endpoint) is expected


def test_an_engine_does_not_take_the_place_of_another(tmp_path: Path) -> None:
    listen = f"ipc://{tmp_path}/e"
    one = Engine(0, 1, listen)
    try:
        with pytest.raises(FlowError, match="another engine listens at"):
            Engine(0, 1, listen)
    finally:
        one.stop()
        one.serve()


@pytest.mark.parametrize("listen", ["tcp://0.0.0.0:*", "tcp://127.0.0.1:*", "ipc://@abstract"])
def test_an_engine_listens_where_other_users_reach_it_only_when_told_so(listen: str) -> None:
    with pytest.raises(FlowError, match=r"other users of this host included.*--insecure"):
        Engine(0, 1, listen)
