"""Time jumps from timer to timer, and each process has a loop that can be frozen or ended."""

from __future__ import annotations

import asyncio

import pytest

from shunter.testing.simulation.loop import Livelock, ProcessLoop, VirtualTime


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime(max_steps=10_000)


def run(time: VirtualTime, seconds: float) -> None:
    time.run(until=lambda: False, deadline=seconds)


def test_a_day_of_sleep_takes_no_time(time: VirtualTime) -> None:
    loop = ProcessLoop(time, "p")
    woken: list[float] = []

    async def sleep() -> None:
        await asyncio.sleep(86_400)
        woken.append(asyncio.get_running_loop().time())

    loop.create_task(sleep())
    run(time, 100_000)

    assert woken == [86_400]


def test_each_process_runs_on_its_own_loop(time: VirtualTime) -> None:
    seen: list[object] = []
    loops = [ProcessLoop(time, name) for name in "ab"]

    async def look() -> None:
        await asyncio.sleep(1)
        seen.append(asyncio.get_running_loop())

    for loop in loops:
        loop.create_task(look())
    run(time, 2)

    assert seen == loops


def test_what_became_due_in_a_frozen_process_runs_when_it_is_thawed(time: VirtualTime) -> None:
    loop = ProcessLoop(time, "p")
    rang: list[tuple[str, float]] = []
    loop.call_later(1, lambda: rang.append(("first", time.now)))
    loop.call_later(2, lambda: rang.append(("second", time.now)))
    loop.call_later(9, lambda: rang.append(("third", time.now)))
    time.at(0.5, loop.freeze)
    time.at(5, loop.thaw)

    run(time, 20)

    assert rang == [("first", 5), ("second", 5), ("third", 9)]


def test_a_process_that_was_ended_does_nothing_more_not_even_clean_up(time: VirtualTime) -> None:
    loop = ProcessLoop(time, "p")
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            done.append("cleaned up")

    task = loop.create_task(work())
    time.at(5, loop.end)
    run(time, 20)

    assert done == []
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    task.get_coro().close()  # type: ignore[union-attr]


def test_a_process_can_be_ended_after_so_many_steps(time: VirtualTime) -> None:
    loop = ProcessLoop(time, "p")
    steps: list[int] = []
    for number in range(5):
        loop.call_soon(steps.append, number)
    loop.end_after(3, loop.end)

    run(time, 1)

    assert steps == [0, 1, 2]


def test_a_run_that_never_comes_to_rest_is_stopped(time: VirtualTime) -> None:
    loop = ProcessLoop(time, "p")

    def again() -> None:
        loop.call_later(0.0001, again)

    again()

    with pytest.raises(Livelock):
        run(time, 1_000_000)
