"""Who gets how much of a window: what is not used goes to those who use it."""

from __future__ import annotations

import pytest

from unit.worker.credit_world import HEARTBEAT, World

MANY = 10**6


def busy(world: World, *places: int) -> None:
    for place in places:
        world.stations[place].backlog = MANY


def given(world: World, seconds: float, *, job_seconds: float = 0.25) -> list[int]:
    """How many jobs each dispatcher gets done in a while."""
    before = [station.given for station in world.stations]
    world.run(seconds, job_seconds=job_seconds)
    return [s.given - b for s, b in zip(world.stations, before, strict=True)]


@pytest.mark.parametrize("stores", ["aa", "ab", "abc"])
def test_the_only_busy_one_has_all_places_within_two_heartbeats(stores: str) -> None:
    world = World(stores, limit=3)
    world.run(3.0)

    busy(world, 1)
    world.run(2 * HEARTBEAT, job_seconds=0.5)

    assert len(world.at_work) == 3


def test_the_busy_ones_share_alike() -> None:
    world = World("ab", limit=4)
    busy(world, 0, 1)
    world.run(3.0, job_seconds=0.5)

    one, two = given(world, 20.0)

    assert one == pytest.approx(two, rel=0.1)


def test_one_of_another_store_gets_work_through_though_all_places_are_taken() -> None:
    world = World("ab", limit=2)
    busy(world, 0)
    world.run(10.0, job_seconds=0.2)
    busy(world, 1)

    assert given(world, 4 * HEARTBEAT, job_seconds=0.2)[1] > 0


def test_trying_idle_ones_costs_the_busy_one_little() -> None:
    done = []
    for stores in ("a", "ab"):
        world = World(stores, limit=2)
        busy(world, 0)
        world.run(5.0, job_seconds=0.2)
        done.append(given(world, 30.0, job_seconds=0.2)[0])

    alone, beside_another = done
    assert beside_another > 0.9 * alone


def test_idle_ones_over_the_store_of_a_busy_one_are_not_tried() -> None:
    world = World("aaa", limit=2)
    busy(world, 0)
    world.run(5.0, job_seconds=0.2)
    before = world.extra_beats

    world.run(30.0, job_seconds=0.2)

    assert world.extra_beats - before < 5


@pytest.mark.parametrize(("stores", "limit"), [("abc", 1), ("abcde", 2), ("ab", 1)])
def test_places_go_round_among_idle_ones_where_there_are_too_few(stores: str, limit: int) -> None:
    world = World(stores, limit)
    has_had: set[int] = set()

    for _ in range(10 * (len(stores) + 1)):
        world.run(0.1)
        has_had |= {n for n, account in enumerate(world.credits.accounts) if account.told}

    assert has_had == set(range(len(stores)))


@pytest.mark.parametrize(("stores", "limit"), [("abc", 1), ("abcde", 2), ("ab", 1), ("abc", 2)])
@pytest.mark.parametrize("job_seconds", [0.1, 1.5])
def test_all_that_are_busy_have_their_turn_where_there_are_too_few_places(
    stores: str, limit: int, job_seconds: float
) -> None:
    world = World(stores, limit)
    busy(world, *range(len(stores)))

    rounds = given(world, 40.0, job_seconds=job_seconds)

    assert min(rounds) > 0
    assert max(rounds) <= 3 * min(rounds)


def test_a_slow_dispatcher_keeps_its_turn_until_it_has_answered() -> None:
    world = World("ab", limit=1)
    world.run(2.0)
    busy(world, 1)
    for _ in range(100):
        world.tick(0.1)
        if world.credits.accounts[1].told:
            break
    for _ in range(40):  # it does not read anything
        world.tick(0.1)

    assert world.credits.accounts[1].told == 1
    world.flow()
    assert list(world.at_work.values()) == [1]


def test_a_window_too_small_for_what_is_held_is_shared_alike() -> None:
    world = World("ab", limit=8)
    busy(world, 0)
    world.run(3.0, job_seconds=99.0)
    assert len(world.at_work) == 8

    world.limit = 2
    world.run(1.0, job_seconds=99.0)

    assert sum(account.share for account in world.credits.accounts) == 2
    assert len(world.at_work) == 8
