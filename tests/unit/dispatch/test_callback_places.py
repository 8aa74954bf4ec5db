"""Places for calls: no host takes them from the others, however slow it is."""

from __future__ import annotations

from shunter.dispatch.callback_places import MOST_HOSTS, MOST_QUEUED, SLOW_SECONDS, CallbackPlaces
from shunter.model.job import Callback, Job, Status


def job(number: int, host: str = "a") -> Job:
    return Job(
        id=f"{host}-{number}",
        type="t",
        created=0.0,
        updated=0.0,
        status=Status.COMPLETED,
        callback=Callback(f"http://{host}/done?{number}", due=0.0),
    )


def made(at_once: int = 16) -> CallbackPlaces:
    return CallbackPlaces(at_once, jitter=lambda: 0.0)


def call(places: CallbackPlaces, *, now: float = 0.0) -> list[str]:
    """Begin all calls that can be made."""
    chosen = places.next_calls(now=now)
    for each in chosen:
        places.begin(each, now=now)
    return [each.id for each in chosen]


def wait_for(places: CallbackPlaces, host: str, count: int, *, now: float = 0.0) -> int:
    """Add so many callbacks of a host; return how many were taken."""
    return sum(places.add(job(number, host), now=now) for number in range(count))


def test_a_host_that_nobody_knows_gets_a_quarter_of_the_places() -> None:
    places = made()
    wait_for(places, "a", 20)

    assert len(call(places)) == 4
    assert not places.has_next
    assert places.is_hungry


def test_a_host_that_answers_gets_more_but_never_all() -> None:
    places = made()
    wait_for(places, "a", 60)
    under_way = call(places)

    for _ in range(40):
        places.end(under_way.pop(0), now=0.01)
        under_way += call(places, now=0.01)

    assert len(under_way) == 12


def test_hosts_take_turns() -> None:
    places = made()
    for host in "abc":
        wait_for(places, host, 9)

    assert [name[0] for name in call(places)] == list("abcabcabcabc")


def test_while_hundreds_hang_another_is_called_at_once() -> None:
    places = made()
    wait_for(places, "hangs", 200)
    call(places)
    now = SLOW_SECONDS
    assert call(places, now=now) == []

    assert places.add(job(1, "healthy"), now=now)

    assert places.has_next
    assert call(places, now=now) == ["healthy-1"]


def test_a_host_that_was_slow_gets_one_place_until_it_is_quick_again() -> None:
    places = made()
    wait_for(places, "a", 20)
    for each in call(places):
        places.end(each, now=10.0)

    [single] = call(places, now=10.0)
    assert call(places, now=10.0) == []
    places.end(single, now=10.1)

    assert len(call(places, now=10.1)) > 1


def test_all_slow_hosts_together_have_half_of_the_places() -> None:
    places = made()
    for number in range(20):
        host = f"slow{number}"
        wait_for(places, host, 5)
        places.begin(job(99, host), now=0.0)
        places.end(f"{host}-99", now=10.0)

    assert len(call(places, now=10.0)) == 8
    assert not places.has_next
    wait_for(places, "healthy", 9, now=10.0)

    assert len(call(places, now=10.0)) == 4


def test_a_host_s_queue_is_bounded_and_does_not_count_for_others() -> None:
    places = made()

    assert wait_for(places, "a", 1000) == MOST_QUEUED
    assert wait_for(places, "b", 5) == 5


def test_hosts_that_have_nothing_to_be_called_for_are_forgotten_in_the_end() -> None:
    places = made()
    for number in range(2 * MOST_HOSTS):
        places.begin(job(1, f"h{number}"), now=0.0)
        places.end(f"h{number}-1", now=0.0)

    assert len(places._hosts) == MOST_HOSTS


def test_a_single_place_is_given_to_one_after_the_other() -> None:
    places = made(at_once=1)
    wait_for(places, "a", 2)
    wait_for(places, "b", 2)

    order = []
    for _ in range(4):
        [each] = call(places)
        places.end(each, now=0.0)
        order.append(each[0])

    assert order == list("abab")
