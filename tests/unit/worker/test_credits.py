"""A worker's window is divided among its dispatchers, and no part of it is given twice."""

from __future__ import annotations

import pytest

from shunter.worker.zmq.account import Account
from shunter.worker.zmq.credits import Credits
from unit.worker.credit_world import Said, World

MANY = 10**6


def told(world: World) -> list[int]:
    return [account.told for account in world.credits.accounts]


def said(world: World, place: int) -> list[tuple[str, int]]:
    return [(message.what, message.window) for message in world.lines[place].out]


# ---- one dispatcher: nothing changes


def test_the_only_dispatcher_is_told_the_whole_window_with_ready_and_with_everything() -> None:
    world = World("a", limit=4)
    assert said(world, 0) == [("READY", 4)]
    world.flow()
    world.stations[0].backlog = MANY

    world.ping(0)
    world.flow()
    world.limit = 9
    world.end(next(iter(world.at_work)))

    assert said(world, 0) == [("RESULTS", 9)]


def test_the_only_dispatcher_gets_no_beat_but_its_heartbeats() -> None:
    world = World("a", limit=2)
    world.stations[0].backlog = MANY

    for limit in (2, 8, 2, 1024, 3):
        world.limit = limit
        world.run(2.0, job_seconds=0.2)

    assert world.extra_beats == 0


def test_a_dispatcher_that_is_restarted_is_told_only_what_its_former_life_left() -> None:
    world = World("a", limit=3)
    world.stations[0].backlog = 2
    world.flow()
    assert len(world.at_work) == 2

    world.restart(0)
    world.ping(0)
    world.read(0)
    world.hear(0)

    assert said(world, 0) == [("READY", 1)]
    world.flow()
    world.end(next(iter(world.at_work)))
    world.run(1.2, job_seconds=9.0)
    assert told(world) == [2]


def test_a_dispatcher_that_comes_back_as_the_same_is_told_all_at_once() -> None:
    world = World("a", limit=3)
    world.stations[0].backlog = 2
    world.flow()

    world.open(0)
    assert said(world, 0) == [("READY", 1)]
    world.flow()

    assert told(world) == [3]


# ---- several: shared, and nothing twice


@pytest.mark.parametrize(
    ("dispatchers", "limit", "expected"),
    [
        ("ab", 2, [1, 1]),
        ("ab", 5, [3, 2]),
        ("abc", 3, [1, 1, 1]),
        ("aaaa", 9, [3, 2, 2, 2]),
        ("ab", 0, [0, 0]),
    ],
)
def test_where_nobody_needs_more_all_get_the_same(
    dispatchers: str, limit: int, expected: list[int]
) -> None:
    world = World(dispatchers, limit)

    world.run(3.0)

    assert told(world) == expected
    before = world.extra_beats
    world.run(10.0)
    assert world.extra_beats == before, "and nothing moves"


def test_nobody_of_several_is_given_credit_before_it_has_answered() -> None:
    world = World("ab", limit=2)

    assert said(world, 0) == said(world, 1) == [("READY", 0)]


def test_one_that_is_not_there_takes_nothing_from_the_others() -> None:
    world = World("ab", limit=2)
    world.read(0)
    world.begin_turn(0)
    world.stations[0].perform()
    world.hear(0)

    assert said(world, 0) == [("PING", 2)]


def test_credit_is_given_to_another_only_after_the_first_knows_that_it_has_less() -> None:
    world = World("ab", limit=2)
    first, second = 0, 1
    world.read(first)
    world.begin_turn(first)
    world.stations[first].perform()
    world.hear(first)
    world.read(first)  # it may have both places now

    world.read(second)
    world.begin_turn(second)
    world.stations[second].perform()
    world.hear(second)

    assert said(world, first) == [("PING", 1)]
    assert said(world, second) == []
    world.flow()
    assert told(world) == [1, 1]


def test_jobs_chosen_on_an_older_number_count_until_they_have_come_and_gone() -> None:
    world = World("ab", limit=2)
    world.stations[0].backlog = 2
    world.restart(1)  # the second is not there yet
    world.lines[1].out.clear()
    world.flow()
    assert len(world.at_work) == 2

    world.open(1)
    world.run(0.5, job_seconds=9.0)
    assert told(world)[1] == 0

    for job in list(world.at_work):
        world.end(job)
    world.run(3.0)
    assert told(world) == [1, 1]


def test_a_dispatcher_that_is_gone_leaves_its_credit_when_its_connection_is_given_up() -> None:
    world = World("ab", limit=2)
    world.stations[0].backlog = world.stations[1].backlog = MANY
    world.flow()
    assert sorted(world.at_work.values()) == [0, 1]

    world.restart(0)
    world.open(0)
    world.lines[0].out.clear()
    world.tick(0.1)
    assert told(world) == [0, 1], "its job still takes a place"

    job = next(job for job, place in world.at_work.items() if place == 0)
    world.origins.reported([job])
    world.tick(0.1)
    assert told(world) == [0, 1], "its end is not stored yet"

    world.origins.confirmed([job])
    world.tick(0.1)
    assert told(world) == [0, 2]


def test_whoever_is_greeted_gets_nothing_until_it_is_known_whether_it_is_another_by_now() -> None:
    world = World("aa", limit=2)
    world.stations[0].backlog = 1
    world.flow()
    world.restart(0)

    world.open(1)
    world.ping(0)
    assert said(world, 0) == [("READY", 0), ("PING", 0)]
    world.flow()

    assert len(world.at_work) == 1
    assert sum(told(world)) == 1, "the job of its former life takes a place"


def test_a_smaller_window_is_told_at_once_and_a_larger_one_as_far_as_it_is_free() -> None:
    world = World("ab", limit=6)
    world.flow()
    assert told(world) == [3, 3]

    world.limit = 2
    world.tick(0.1)
    world.ping(0)
    assert told(world)[0] == 1
    world.limit = 4
    world.tick(0.1)
    world.ping(1)
    assert told(world)[1] == 2


def test_what_does_not_fit_is_refused_with_no_window_until_the_next_beat() -> None:
    world = World("a", limit=1)
    world.may_refuse = True
    world.stations[0].backlog = 1
    world.flow()
    (job,) = world.at_work
    station = world.stations[0]
    station.held.discard(job)  # it believes that the job is over
    station.backlog = 1

    world.flow()

    assert world.refused == 1
    assert station.window == 0
    world.run(0.5, job_seconds=9.0)
    assert station.window == 0
    world.run(1.0, job_seconds=9.0)
    assert station.window == 1


# ---- what one may still believe


def test_a_window_raised_between_two_beats_counts_with_the_earlier() -> None:
    account = Account()
    account.tell(5, beat=1)
    account.tell(1, beat=2)
    account.tell(3, beat=None)
    account.tell(1, beat=3)

    assert account.bound == 5
    account.answered(2, now=0.0)
    assert account.bound == 3
    account.answered(3, now=0.0)
    assert account.bound == 1


def test_a_later_beat_that_said_more_counts_before_it_is_answered() -> None:
    account = Account()
    account.tell(5, beat=1)
    account.tell(1, beat=2)
    account.tell(2, beat=3)

    account.answered(2, now=0.0)

    assert account.bound == 2


def test_an_answer_to_a_beat_answers_those_before_it() -> None:
    account = Account()
    for beat, window in enumerate((5, 4, 2, 1), start=1):
        account.tell(window, beat=beat)

    account.answered(4, now=0.0)

    assert account.bound == 1


def test_what_was_lowered_counts_as_held_until_it_has_been_counted() -> None:
    both = Credits(2, heartbeat=1.0)
    one, two = both.accounts
    for account, name in ((one, "d-1"), (two, "d-2")):
        both.answered(account, 1, dispatcher_id=name, store="s", now=0.0)
    one.tell(4, beat=2)
    one.tell(0, beat=3)

    both.answered(one, 3, dispatcher_id="d-1", store="s", now=0.0)

    assert (one.bound, one.committed) == (0, 4)
    both.measured({"d-1": 1})
    assert one.committed == 1


def test_a_dispatcher_that_reads_ready_behind_an_older_ping_goes_by_ready() -> None:
    world = World("ab", limit=2)
    world.flow()
    world.ping(0)
    world.read(0)
    world.open(0)
    world.read(0)
    world.stations[0].backlog = MANY

    world.begin_turn(0)

    assert world.stations[0].window == 0
    assert Said("PING", 1) not in world.stations[0].inbox
