"""A busy store has one carrier among its dispatchers; an idle one has none."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.worker.zmq.account import Account
from shunter.worker.zmq.shares import Shares
from unit.worker.credit_world import HEARTBEAT, World

MANY = 10**6
PLENTY = 16
JOB_SECONDS = 0.15


def busy_world(stores: str, *, seed: int = 0) -> World:
    """A worker with many places, and dispatchers that all have work for it."""
    world = World(stores, PLENTY * len(stores), seed=seed)
    for station in world.stations:
        station.backlog = MANY
    world.run(2 * HEARTBEAT, job_seconds=JOB_SECONDS)
    return world


def told(world: World) -> list[int]:
    return [account.told for account in world.credits.accounts]


def carriers(world: World) -> list[int]:
    """Those that may have jobs here."""
    return [place for place, places in enumerate(told(world)) if places]


@pytest.mark.parametrize("stores", ["aa", "aaaa"])
def test_one_dispatcher_over_a_busy_store_has_all_places(stores: str) -> None:
    world = busy_world(stores)

    assert sorted(told(world)) == [0] * (len(stores) - 1) + [world.limit]
    assert len(world.at_work) == world.limit


def test_workers_with_different_seeds_choose_different_carriers() -> None:
    chosen = {tuple(carriers(busy_world("aaa", seed=seed))) for seed in range(3)}

    assert chosen == {(0,), (1,), (2,)}


@pytest.mark.parametrize("job_seconds", [JOB_SECONDS, 1.7 * HEARTBEAT])
def test_a_carrier_that_fills_its_places_stays(job_seconds: float) -> None:
    world = busy_world("aaa")
    before = carriers(world)

    for _ in range(20):
        world.run(HEARTBEAT, job_seconds=job_seconds)
        assert carriers(world) == before


def test_a_carrier_that_has_no_more_work_is_followed_by_one_that_has() -> None:
    world = busy_world("aaa")
    [first] = carriers(world)
    world.stations[first].backlog = 0

    world.run(HEARTBEAT, job_seconds=JOB_SECONDS)

    [second] = carriers(world)
    assert second != first
    assert told(world)[second] == world.limit


def test_when_nobody_is_busy_any_more_all_have_places_for_a_lone_job() -> None:
    world = busy_world("aaaa")
    for station in world.stations:
        station.backlog = 0

    world.run(2 * HEARTBEAT, job_seconds=JOB_SECONDS)

    assert told(world) == [PLENTY] * 4


def test_a_lone_job_makes_nobody_the_carrier() -> None:
    world = World("aa", 2 * PLENTY)
    world.run(HEARTBEAT)
    world.stations[1].backlog = 1

    world.run(HEARTBEAT, job_seconds=99.0)

    assert len(world.at_work) == 1
    assert told(world) == [PLENTY, PLENTY]


@pytest.mark.parametrize("stores", ["aa", "aaaa"])
def test_where_the_carrier_is_stuck_the_others_have_all_once_its_connection_is_given_up(
    stores: str,
) -> None:
    world = busy_world(stores)
    [stuck] = carriers(world)

    world.restart(stuck)
    world.open(stuck)
    world.lines[stuck].out.clear()  # nobody reads there
    for job in list(world.at_work):
        world.at_work.pop(job)
        world.origins.reported([job])
        world.origins.confirmed([job])
    world.run(HEARTBEAT, job_seconds=99.0)

    assert stuck not in world.at_work.values()
    assert len(world.at_work) == world.limit


def test_with_few_places_one_has_all_of_them_too() -> None:
    world = World("aa", 2)
    for station in world.stations:
        station.backlog = MANY

    world.run(3 * HEARTBEAT, job_seconds=JOB_SECONDS)

    assert sorted(told(world)) == [0, 2]


def test_a_carrier_takes_nothing_from_other_stores() -> None:
    world = busy_world("aabc")

    assert told(world)[:2].count(0) == 1
    assert min(told(world)[2:]) >= PLENTY
    assert sum(told(world)) == world.limit


# ---- whatever they hold


def account(store: str, told: int, held: int, was_filled: bool) -> Account:
    made = Account()
    made.is_live, made.store = True, store
    made.told = made.bound = told
    made.held, made.was_filled = min(told, held), was_filled
    return made


ACCOUNTS = st.lists(
    st.builds(
        account, st.sampled_from("ab"), st.integers(0, 40), st.integers(0, 40), st.booleans()
    ),
    min_size=1,
    max_size=4,
)


def test_a_guest_has_no_place_where_there_is_none() -> None:
    accounts = [account("a", 0, 0, False), account("b", 0, 0, True)]

    Shares(1.0).allot(accounts, 0, now=0.1)

    assert [each.share for each in accounts] == [0, 0]


@given(
    accounts=ACCOUNTS,
    spare=st.integers(0, 99),
    seed=st.integers(0, 9),
    pauses=st.lists(st.sampled_from([0.1, 0.3, 1.0]), min_size=1, max_size=4),
)
def test_shares_add_up_to_the_places(
    accounts: list[Account], spare: int, seed: int, pauses: list[float]
) -> None:
    places = sum(account.told for account in accounts) + spare
    shares = Shares(1.0, seed=seed)

    for now in accumulate(pauses):
        shares.allot(accounts, places, now=now)

        assert sum(account.share for account in accounts) == places


@given(accounts=ACCOUNTS, spare=st.integers(0, 99), seed=st.integers(0, 9))
def test_of_each_busy_store_one_that_fills_its_places_has_what_others_do_not_hold(
    accounts: list[Account], spare: int, seed: int
) -> None:
    busy = {account for account in accounts if account.was_filled or account.is_full}

    Shares(1.0, seed=seed).allot(accounts, sum(a.told for a in accounts) + spare, now=0.0)

    for store in {account.store for account in busy}:
        more = [a for a in accounts if a.store == store and a.share > a.held]
        assert len(more) <= 1
        assert set(more) <= busy


@given(accounts=ACCOUNTS, seed=st.integers(0, 9))
def test_when_nobody_fills_its_places_any_more_all_have_the_same_after_two_looks(
    accounts: list[Account], seed: int
) -> None:
    shares = Shares(HEARTBEAT, seed=seed)
    shares.allot(accounts, 400, now=0.0)
    for account in accounts:
        account.told, account.held = 100, 1

    for now in (0.25, 0.5):
        shares.allot(accounts, 400, now=now)

    portions = [account.share for account in accounts]
    assert max(portions) - min(portions) <= 1
