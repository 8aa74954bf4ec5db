"""When HTTP workers are asked, and what follows from their answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shunter.model import health
from shunter.model.health import HealthRules
from shunter.model.key import Key, KeyRing, Role
from shunter.model.worker import Worker, WorkerKind

RULES = HealthRules(ping_interval=30.0, max_retries=3, dead_ping_interval=60.0, dead_max_retries=2)


def registered(**changes: Any) -> Worker:
    registration: dict[str, Any] = {
        "hostname": "calc.example", "port": 9000, "handlers": ("sum",), "max_jobs": 4, "now": 100.0,
    }  # fmt: skip
    return health.registered(None, **(registration | changes))


def failed(worker: Worker, times: int) -> Worker:
    for _ in range(times):
        worker = health.unanswered(worker, "no route", RULES)
    return worker


def test_a_new_worker_is_untried_and_may_have_jobs() -> None:
    worker = registered()

    assert (worker.kind, worker.state, worker.revision) == (WorkerKind.HTTP, "untried", 1)
    assert (worker.is_dead, worker.is_resigned, worker.jobs) == (False, False, ())


def test_the_same_address_is_the_same_worker_and_another_is_another() -> None:
    assert registered().id == registered(hostname="CALC.example", max_jobs=9).id
    assert len({registered().id, registered(port=9001).id, registered(hostname="b").id}) == 3


def test_who_comes_again_is_as_new_but_for_its_revision() -> None:
    known = health.resigned(failed(registered(), 3), now=150.0)
    registration = {
        "hostname": "calc.example",
        "port": 9000,
        "handlers": ("sum", "mean"),
        "max_jobs": 8,
    }

    again = health.registered(known, **registration, now=200.0)

    assert (again.id, again.revision, again.incarnation) == (known.id, known.revision + 1, 1)
    assert (again.is_dead, again.is_resigned, again.failed_ping_count) == (False, False, 0)
    assert (again.max_jobs, again.registered, again.verified) == (8, 200.0, 0.0)


def test_a_worker_is_asked_once_in_an_interval_by_whoever_writes_first() -> None:
    worker = registered()

    assert not health.is_check_due(worker, RULES, now=129.9)
    assert health.is_check_due(worker, RULES, now=130.0)
    asked = health.taken_on(worker, RULES, now=130.0)
    assert asked.revision == worker.revision + 1
    assert not health.is_check_due(asked, RULES, now=159.9)


def test_failures_are_counted_until_it_is_dead_and_until_it_is_hopeless() -> None:
    worker = registered()

    seen = [failed(worker, times) for times in range(6)]

    assert [it.is_dead for it in seen] == [False, False, False, True, True, True]
    assert [it.failed_ping_count for it in seen] == list(range(6))
    assert [health.is_beyond_hope(it, RULES) for it in seen] == [False] * 5 + [True]
    assert seen[3].last_error == "no route"
    assert seen[3].state == "dead"


def test_a_dead_worker_is_asked_less_often_and_lives_again_when_it_answers() -> None:
    dead = failed(registered(), 4)

    assert not health.is_check_due(dead, RULES, now=159.0)
    assert health.is_check_due(dead, RULES, now=160.0)
    risen = health.answered(dead, now=161.0)
    assert (risen.state, risen.failed_ping_count, risen.last_error) == ("alive", 0, "")
    assert risen.answered == 161.0


def test_who_resigned_is_left_alone() -> None:
    gone = health.resigned(registered(), now=101.0)

    assert gone.state == "resigned"
    assert not health.is_check_due(gone, RULES, now=1e9)
    assert not health.is_verification_due(gone, RULES, now=1e9)


def test_workers_of_other_kinds_are_not_asked() -> None:
    other = Worker(
        id="w", kind=WorkerKind.FULL, hostname="", port=0, handlers=(), max_jobs=1, registered=0.0,
        last_pinged=0.0,
    )  # fmt: skip

    assert not health.is_check_due(other, RULES, now=1e9)
    assert not health.is_verification_due(other, RULES, now=1e9)


def test_jobs_are_verified_at_their_own_interval_and_at_once_after_a_registration() -> None:
    worker = replace(registered(), jobs=("j",))

    assert health.is_verification_due(worker, RULES, now=100.0)
    assert not health.is_verification_due(registered(), RULES, now=100.0)
    verified = health.taken_on(worker, RULES, now=100.0)
    assert (verified.verified, verified.last_pinged) == (100.0, 100.0)
    assert verified.revision == worker.revision + 1
    assert not health.is_verification_due(verified, RULES, now=109.9)
    assert health.is_verification_due(verified, RULES, now=110.0)
    assert not health.is_verification_due(failed(worker, 3), RULES, now=200.0)


def test_check_and_verification_are_taken_on_by_one_write() -> None:
    worker = replace(registered(), jobs=("j",))

    both = health.taken_on(worker, RULES, now=140.0)

    assert (both.last_pinged, both.verified, both.revision) == (140.0, 140.0, worker.revision + 1)


@pytest.mark.parametrize("retries", [0, 1])
def test_without_retries_one_failure_is_death(retries: int) -> None:
    rules = HealthRules(max_retries=retries)

    assert health.unanswered(registered(), "gone", rules).is_dead


@given(st.floats(15.0, 1e4), st.integers(3, 100), st.floats(0.0, 3.0), st.floats(1.0, 1.2))
def test_a_worker_whose_answers_are_lost_stops_before_anybody_takes_over(
    interval: float, retries: int, kill: float, late: float
) -> None:
    """It hears each check, and each one says how long it has left."""
    rules = HealthRules(ping_interval=interval, max_retries=retries, kill_within=kill)
    worker = health.answered(registered(), now=1000.0)
    now, ends = 1000.0, float("inf")
    while not worker.is_dead:
        now += interval * late
        if now < ends:  # else it has stopped already
            ends = now + health.lease(worker, rules)
        worker = health.unanswered(worker, "lost", rules)

    assert ends + kill < now


@given(st.floats(0.1, 1e5), st.integers(0, 100), st.floats(0.0, 100.0))
def test_a_healthy_worker_is_never_told_to_stop_before_its_next_check(
    interval: float, retries: int, kill: float
) -> None:
    rules = HealthRules(ping_interval=interval, max_retries=retries, kill_within=kill)
    worker = health.answered(registered(), now=1000.0)

    assert health.lease(worker, rules) > interval + 1.5


def key(name: str, **changes: Any) -> Key:
    values: dict[str, Any] = {
        "role": Role.WORKER,
        "public": name,
        "token_hash": name,
        "udp_key": "",
    }
    return Key(name=name, **(values | changes))


def test_an_address_is_its_first_keys_as_long_as_worker_and_key_are_there() -> None:
    ring, worker = KeyRing([key("a"), key("b")]), registered(key="a")

    assert health.is_anothers(worker, "b", ring)
    assert not health.is_anothers(worker, "a", ring)
    assert not health.is_anothers(None, "b", ring)
    assert not health.is_anothers(registered(), "b", ring)  # it came before there were keys
    assert not health.is_anothers(worker, "b", KeyRing([key("a", revoked=1.0), key("b")]))
    assert not health.is_anothers(failed(worker, 3), "b", ring)
    assert not health.is_anothers(health.resigned(worker, now=1.0), "b", ring)


def test_a_worker_is_welcome_with_a_live_key_for_all_its_types() -> None:
    worker = registered(key="a", handlers=("sum", "mean"))

    assert health.is_welcome(worker, KeyRing([key("a")]))
    assert health.is_welcome(worker, KeyRing([key("a", types=("mean", "sum", "max"))]))
    assert not health.is_welcome(worker, KeyRing([key("a", types=("sum",))]))
    assert not health.is_welcome(worker, KeyRing([key("a", role=Role.OPERATOR)]))
    assert not health.is_welcome(worker, KeyRing([key("a", revoked=1.0)]))
    assert not health.is_welcome(registered(), KeyRing([key("a")]))


def test_the_secret_of_a_worker_is_not_in_what_is_written_of_it() -> None:
    worker = registered(secret="only-dispatchers-show-it")

    assert "only-dispatchers-show-it" not in f"{worker!r}{worker.shown}"
    assert worker.id in repr(worker)
    assert worker.shown == replace(worker, secret="")
