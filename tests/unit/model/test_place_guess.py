"""When places under limits are given away without a look at those that are taken."""

from __future__ import annotations

import pytest

from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.lane_claim import LANES_AT_ONCE, LaneState
from shunter.model.place_guess import KEPT_SECONDS, PlaceGuesses

NOW = 1000.0
LIMITS = JobLimits(limit=Limit(40, by="tenant", total=100))


def looked(limits=LIMITS, *, lanes=("tenant=a", "tenant=b"), held=None, totals=(), started=0):
    """Guesses after a look that has found these places taken."""
    guesses = PlaceGuesses()
    guesses.first("mail", dispatcher_id="d-1", now=NOW)
    state = LaneState(limits, held or {}, set(totals))
    guesses.looked("mail", state, lanes, started=started, now=NOW)
    return guesses


def is_guessed(guesses, *, wanted, limits=LIMITS, now=NOW):
    return guesses.of("mail", limits, wanted=wanted, now=now) is not None


@pytest.mark.parametrize(
    ("given", "most"),
    [
        (looked(), 20),  # half of the 40 of a key
        (looked(held={"tenant=b": set(range(30))}), 5),
        (looked(totals=range(90)), 5),
        (looked(started=12), 8),
        (looked(JobLimits(fair="tenant")), 50_000),
        (looked(held={"tenant=b": {40}}), 0),  # the limit was lowered, and one above it still runs
        (looked(totals=[100]), 0),
        (looked(lanes=[f"tenant={it}" for it in range(LANES_AT_ONCE)]), 0),
    ],
)
def test_half_of_the_room_is_given_away_without_a_look(given, most):
    limits = given._by_type["mail"].limits

    assert is_guessed(given, wanted=max(most, 1), limits=limits) is (most > 0)
    assert not is_guessed(given, wanted=most + 1, limits=limits)


def test_a_look_counts_for_a_moment_and_under_the_same_limits():
    guesses = looked()

    assert not is_guessed(guesses, wanted=1, now=NOW + KEPT_SECONDS)
    assert not is_guessed(guesses, wanted=1, now=NOW - 0.01)
    assert not is_guessed(guesses, wanted=1, limits=JobLimits(limit=Limit(41, by="tenant")))


def test_numbers_go_on_behind_those_given_last():
    guesses = looked()
    first = guesses.first("mail", dispatcher_id="d-1", now=NOW)

    guesses.started("mail", 7)

    assert guesses.first("mail", dispatcher_id="d-1", now=NOW + 5) == first + 7
    assert not is_guessed(guesses, wanted=14)


def test_tokens_that_were_taken_are_remembered_with_their_revisions():
    guesses = looked(JobLimits(rate=Rate(10, by="tenant")))
    guesses.took_tokens("mail", {"tenant=a": 5.0})
    guesses.took_tokens("mail", {"tenant=a": 6.0, "tenant=b": 1.0})

    guess = guesses._by_type["mail"]

    assert guess.next_at == {"tenant=a": 6.0, "tenant=b": 1.0}
    assert guess.revisions == {"tenant=a": 2, "tenant=b": 1}


def test_a_guess_in_vain_makes_the_next_claim_look():
    guesses = looked()

    guesses.forget("mail")

    assert not is_guessed(guesses, wanted=1)
