"""Many short tasks: a worker over UDP takes some ahead, and gives back what then has to wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shunter import UdpClient
from system.udp.views import calculators
from system.witness import runs_in
from system.yard import PATIENCE, WITNESS_APP, Process, Station, Yard, until

Start = Callable[[], Process]

AT_ONCE = 300


@pytest.fixture
def start(yard: Yard, station: Station) -> Start:
    """Start workers with one slot."""
    count = 0

    def started() -> Process:
        nonlocal count
        count += 1
        name = f"calculator-{count}"
        config = yard.config(name, {"worker.max_jobs": 1})
        words = ["calculator", "--app", WITNESS_APP, "--config", str(config)]
        process = yard.process([*words, "--dispatcher", f"127.0.0.1:{station.udp_port}"], name)
        until(lambda: process.logged(action="start"))  # tasks don't wait for long
        return process

    return started


def hurry(client: UdpClient, rounds: int = 2) -> None:
    """Have many short tasks done."""
    for _ in range(rounds):
        tasks = client.submit_many("add", [(n, 1) for n in range(AT_ONCE)])
        assert [task.result(PATIENCE) for task in tasks] == list(range(1, AT_ONCE + 1))


def test_one_slot_gets_more_seats_and_each_task_runs_once(station: Station, start: Start) -> None:
    start()

    with UdpClient(("127.0.0.1", station.udp_port)) as client:
        hurry(client)

        assert len(calculators(station)) > 1
        counted = station.counters()
    assert counted["jobs_completed"] == counted["jobs_accepted"] == 2 * AT_ONCE
    assert counted.get("reports_refused", 0) == counted.get("jobs_lost", 0) == 0


def test_what_waits_behind_a_long_task_goes_to_another(
    station: Station, start: Start, yard: Yard
) -> None:
    first = start()
    with UdpClient(("127.0.0.1", station.udp_port)) as client:
        hurry(client)
        gate = yard.folder / "gate"
        long = client.submit("held", 7, str(gate))
        until(lambda: runs_in(yard.witness))
        start()

        hurry(client, 1)

        assert not long.is_done
        gate.touch()
        assert long.result(PATIENCE) == 7
    assert [len(runs) for runs in runs_in(yard.witness).values()] == [1]
    assert first.terminate() == 0
