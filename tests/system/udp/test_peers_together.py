"""Our client, our dispatcher and our calculators: whole tasks, also over a bad network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil
import pytest

from shunter import JobFailed, NotPlaced, UdpClient
from shunter.testing.lossy_relay import LossyRelay, Weather
from system.witness import runs_in
from system.yard import PATIENCE, WITNESS_APP, Process, Station, Yard, until

Start = Callable[..., Process]


@pytest.fixture
def start(yard: Yard) -> Start:
    count = 0

    def started(address: tuple[str, int], *, slots: int = 2, **settings: Any) -> Process:
        nonlocal count
        count += 1
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        config = yard.config(f"calculator-{count}", {"worker.max_jobs": slots, **dotted})
        words = ["calculator", "--app", WITNESS_APP, "--config", str(config)]
        where = f"{address[0]}:{address[1]}"
        process = yard.process([*words, "--dispatcher", where], f"calculator-{count}")
        until(lambda: process.logged(action="start"))  # tasks don't wait for long
        return process

    return started


def address_of(station: Station) -> tuple[str, int]:
    return "127.0.0.1", station.udp_port


def test_tasks_are_done_and_their_results_come_back(station: Station, start: Start) -> None:
    start(address_of(station))

    with UdpClient(address_of(station)) as client:
        tasks = client.submit_many("add", [(n, 1) for n in range(100)])
        assert [task.result(PATIENCE) for task in tasks] == list(range(1, 101))
        assert client.add_task("echo", [{"deep": [b"\x00"]}], task_id=5).result(PATIENCE) == {
            "deep": [b"\x00"]
        }
        with pytest.raises(JobFailed, match="ValueError: no good"):
            client.submit("fail", "no good").result(PATIENCE)


@pytest.mark.parametrize("placed_within", [2.0])
def test_a_task_that_nobody_does_is_not_placed(station: Station) -> None:
    with UdpClient(address_of(station)) as client, pytest.raises(NotPlaced):
        client.submit("unheard-of").result(PATIENCE)


def test_a_bad_network_costs_time_but_no_task(start: Start, yard: Yard) -> None:
    station = yard.dispatcher(udp__confirm_timeout=3.0, udp__task_timeout=10.0)
    weather = Weather(loss=0.2, doubles=0.2, held_back=0.2, hold=0.05, delay=(0.0, 0.01))
    with LossyRelay(address_of(station), weather, seed=3) as relay:
        start(relay.address, slots=4)
        with UdpClient(relay.address, timeout=60.0) as client:
            tasks = client.submit_many("work", [(n, 0.0) for n in range(40)])
            results = [task.result(PATIENCE * 2) for task in tasks]

    assert results == list(range(40))
    assert len(runs_in(yard.witness)) == 40


@pytest.mark.parametrize("task_timeout", [3.0])
def test_the_task_of_a_killed_calculator_is_done_by_another(
    station: Station, start: Start, yard: Yard
) -> None:
    first = start(address_of(station), slots=1)
    with UdpClient(address_of(station)) as client:
        task = client.submit("attempt_of", 60.0, b"", 0.1)
        until(lambda: runs_in(yard.witness))
        children = psutil.Process(first.pid).children(recursive=True)
        first.kill()
        start(address_of(station), slots=1)

        assert task.result(PATIENCE) == 2
    assert not any(child.is_running() for child in children)
    (runs,) = runs_in(yard.witness).values()
    assert [run.has_ended for run in runs] == [False, True]


def test_a_calculator_that_leaves_gives_its_task_up_at_once(start: Start, yard: Yard) -> None:
    station = yard.dispatcher()
    first = start(address_of(station), slots=1, worker__grace_seconds=0.0)
    with UdpClient(address_of(station)) as client:
        task = client.submit("attempt_of", 4.0)
        until(lambda: runs_in(yard.witness))
        assert first.terminate() == 0
        start(address_of(station), slots=1)

        assert task.result(PATIENCE) in (2, 3)  # it may have been offered to the leaving one


def test_a_dispatcher_that_was_killed_gets_the_completion_later(
    station: Station, start: Start, yard: Yard
) -> None:
    start(address_of(station), slots=1, udp__heartbeat_timeout=1.0)
    with UdpClient(address_of(station)) as client:
        task = client.submit("work", 7, 1.0)
        until(lambda: runs_in(yard.witness))
        station.restart()

        assert task.result(PATIENCE) == 7


def test_submit_via_udp_prints_the_result_or_what_went_wrong(
    yard: Yard, station: Station, start: Start
) -> None:
    start(address_of(station))
    where = ("--dispatcher", f"127.0.0.1:{station.udp_port}", "--via", "udp")

    done = yard.shunter("submit", *where, "add", "1", "right=2", "--wait")
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
    named = yard.shunter("submit", *where, "add", "1", "2")
    assert (named.returncode, len(named.stdout.strip())) == (0, 26)
    failed = yard.shunter("submit", *where, "fail", "oh", "--wait")
    assert failed.returncode == 1
    assert "ValueError: oh" in failed.stderr
    late = yard.shunter("submit", *where, "work", "1", "2.0", "--wait-timeout", "0.1")
    assert late.returncode == 4
    unsayable = yard.shunter("submit", *where, "add", "1", "2", "--retries", "3")
    assert unsayable.returncode == 2
    assert "--retries can't be said over UDP" in unsayable.stderr
