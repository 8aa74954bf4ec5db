"""A worker's lease by HTTP: what dispatchers promise, and what silence means."""

from __future__ import annotations

import pytest

from shunter.worker.http.http_lease import HttpLease, span_in


def test_before_any_promise_there_is_no_lease() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)

    assert not lease.is_over(now=1e9)


def test_a_promise_holds_from_the_call_on_and_no_longer() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)
    lease.heard(10.0, now=5.0)

    assert not lease.is_over(now=14.9)
    assert lease.is_over(now=15.0)


def test_each_call_renews_and_the_last_promise_counts() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)
    lease.heard(100.0, now=0.0)
    lease.heard(2.0, now=5.0)

    assert lease.is_over(now=7.0)


def test_a_call_after_the_lease_was_over_does_not_make_good_for_it() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)
    assert not lease.heard(10.0, now=0.0)
    assert not lease.heard(10.0, now=9.9)

    assert lease.heard(10.0, now=20.0)

    assert not lease.heard(10.0, now=20.1)
    assert not lease.is_over(now=30.0)


def test_after_a_restart_nothing_is_promised() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)
    lease.heard(1.0, now=0.0)
    lease.restart(now=2.0)

    assert not lease.is_over(now=1e9)


def test_registering_again_is_due_when_most_of_the_lease_is_over() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)
    lease.heard(10.0, now=0.0)

    assert not lease.is_quiet(now=7.9)
    assert lease.is_quiet(now=8.0)

    lease.registered(now=8.0)
    assert not lease.is_quiet(now=15.9)
    assert lease.is_quiet(now=16.0)


def test_a_registration_is_no_lease() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)
    lease.heard(10.0, now=0.0)
    lease.registered(now=9.0)

    assert lease.is_over(now=10.0)


def test_without_a_promise_registering_again_is_due_after_a_while() -> None:
    lease = HttpLease(quiet_after=60.0, now=0.0)

    assert not lease.is_quiet(now=59.9)
    assert lease.is_quiet(now=60.0)


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("87", 87.0),
        (" 1.5 ", 1.5),
        ("0", 0.0),
        ("-3", None),
        ("nan", None),
        ("inf", None),
        ("1e300", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_a_header_that_is_no_span_promises_nothing(header: str | None, span: float | None) -> None:
    assert span_in(header) == span
