"""When places under limits are given away without a look at those that are taken."""

from __future__ import annotations

import pytest

from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.lane_claim import LANES_AT_ONCE, LaneChoice, LanePlace, LaneState
from shunter.model.place_guess import (
    KEPT_SECONDS,
    ROOM_KEPT_SECONDS,
    LaneLook,
    PlaceGuess,
    PlaceGuesses,
    seen_by_guess,
    seen_by_look,
)

NOW = 1000.0
LIMITS = JobLimits(limit=Limit(40, by="tenant", total=100))
NOTHING = LaneChoice({}, {})


def choice(count, **buckets):
    return LaneChoice({seq: LanePlace() for seq in range(count)}, buckets)


def look(limits=LIMITS, *, lanes=("tenant=a", "tenant=b"), held=None, totals=(), chosen=NOTHING):
    """What is learnt from a full look that has found these places taken."""
    state = LaneState(limits, held or {}, set(totals))
    count = len(chosen.starts)
    return seen_by_look(LaneLook(), state, lanes, chosen, fronts=count, started=count, now=NOW)


def guesses_after(seen):
    guesses = PlaceGuesses(first=7)
    guesses.saw("mail", seen.guess, started=0)
    return guesses


def is_guessed(guesses, *, wanted, limits=LIMITS, now=NOW):
    return guesses.of("mail", limits, wanted=wanted, now=now) is not None


@pytest.mark.parametrize(
    ("given", "most"),
    [
        (look(), 20),  # half of the 40 of a key
        (look(held={"tenant=b": set(range(30))}), 5),
        (look(totals=range(90)), 5),
        (look(chosen=choice(12)), 8),
        (look(JobLimits(fair="tenant")), 50_000),
        (look(lanes=()), 20),  # as much as a key may have that was not seen
        (look(held={"tenant=b": {40}}), 0),  # the limit was lowered, and one above it still runs
        (look(totals=[100]), 0),
        (look(lanes=[f"tenant={it}" for it in range(LANES_AT_ONCE)]), 0),
    ],
)
def test_half_of_the_room_is_given_away_without_a_look(given, most):
    guesses, limits = guesses_after(given), given.guess.limits if given.guess else LIMITS

    assert is_guessed(guesses, wanted=max(most, 1), limits=limits) is (most > 0)
    assert not is_guessed(guesses, wanted=most + 1, limits=limits)


def test_a_look_counts_for_some_seconds_and_under_the_same_limits():
    guesses = guesses_after(look())

    assert is_guessed(guesses, wanted=1, now=NOW + ROOM_KEPT_SECONDS - 0.01)
    assert not is_guessed(guesses, wanted=1, now=NOW + ROOM_KEPT_SECONDS)
    assert not is_guessed(guesses, wanted=1, now=NOW - 0.01)
    assert not is_guessed(guesses, wanted=1, limits=JobLimits(limit=Limit(41, by="tenant")))


def test_new_jobs_get_the_next_numbers_while_there_is_room():
    guesses = guesses_after(look())

    places = [guesses.take("mail", LIMITS, "tenant=a", running=0) for _ in range(21)]

    assert places[:3] == [LanePlace(7, 7), LanePlace(8, 8), LanePlace(9, 9)]
    assert places[19:] == [LanePlace(26, 26), None], "half of the room is given away"
    assert guesses.first("mail") == 27
    guesses.saw("mail", look().guess, started=5)
    assert guesses.first("mail") == 32


def test_numbers_go_round():
    guesses = PlaceGuesses(first=99)
    guesses.saw("mail", look().guess, started=0)

    taken = [guesses.take("mail", LIMITS, "tenant=a", running=0) for _ in range(2)]

    assert taken == [LanePlace(19, 99), LanePlace(20, 0)]


@pytest.mark.parametrize(
    ("lane", "running", "is_given"), [("a", 500, True), ("c", 20, True), ("c", 21, False)]
)
def test_a_lane_that_was_not_seen_may_be_full(lane, running, is_given):
    guesses = guesses_after(look())

    place = guesses.take("mail", LIMITS, f"tenant={lane}", running=running)

    assert (place is not None) is is_given


def test_tokens_are_taken_by_claims_alone():
    limits = JobLimits(rate=Rate(10, by="tenant"))
    guesses = guesses_after(look(limits))

    assert is_guessed(guesses, wanted=1, limits=limits)
    assert guesses.take("mail", limits, "tenant=a", running=0) is None


def test_tokens_that_were_taken_are_remembered_with_their_revisions():
    first = look(JobLimits(rate=Rate(10, by="tenant")), chosen=choice(1, **{"tenant=a": 5.0})).guess

    guess = first.less(2, {"tenant=a": 6.0, "tenant=b": 1.0})

    assert guess.next_at == {"tenant=a": 6.0, "tenant=b": 1.0}
    assert guess.revisions == {"tenant=a": 2, "tenant=b": 1}


GUESS = PlaceGuess(LIMITS, ["tenant=a"], NOW, 20)


@pytest.mark.parametrize(
    ("started", "is_rest", "left"),
    [
        (5, True, LaneLook(guess=GUESS.less(5, {}))),
        (4, True, LaneLook(is_more=True)),  # a place was another's
    ],
)
def test_a_guess_in_vain_makes_the_next_claim_look(started, is_rest, left):
    seen = seen_by_guess(LaneLook(), GUESS, choice(5), started=started, wanted=5, is_rest=is_rest)

    assert seen == left


@pytest.mark.parametrize("is_rest", [True, False])
def test_a_claim_that_got_less_than_it_wanted_knows_whether_others_wait(is_rest):
    seen = seen_by_guess(LaneLook(), GUESS, choice(2), started=2, wanted=5, is_rest=is_rest)

    assert seen.is_more is is_rest
    assert seen.is_held_back is is_rest
    assert (seen.guess is None) is is_rest


@pytest.mark.parametrize(
    ("held", "fronts", "is_held_back"),
    [({}, 2, False), ({}, 3, True), ({"tenant=a": set(range(40))}, 2, True)],
    ids=["all started", "some wait", "a full key"],
)
def test_who_waits_for_a_place_is_known_after_a_look(held, fronts, is_held_back):
    state, chosen = LaneState(LIMITS, held, set()), choice(2)

    seen = seen_by_look(LaneLook(), state, ["tenant=a"], chosen, fronts=fronts, started=2, now=NOW)

    assert seen.is_held_back is is_held_back


def test_lanes_are_known_for_a_moment_and_then_looked_at_again():
    guesses = guesses_after(look())
    guess = guesses.of("mail", LIMITS, wanted=1, now=NOW)

    now = NOW + KEPT_SECONDS
    again = guess.with_lanes(["tenant=c", "tenant=a"], guess.state, {}, now=now)

    assert guess.knows_lanes(now - 0.01)
    assert not guess.knows_lanes(now)
    assert not guess.knows_lanes(NOW - 0.01)
    assert again.lanes == ["tenant=a", "tenant=c"]
    assert again.knows_lanes(now)
    assert again.counted_at == NOW, "places were not read"


def test_buckets_that_were_read_with_the_lanes_are_remembered():
    limits = JobLimits(rate=Rate(10, by="tenant"))
    guess = look(limits, chosen=choice(1, **{"tenant=a": 5.0, "tenant=b": 6.0})).guess
    state = LaneState(limits, {}, set(), {"tenant=b": 7.0})

    again = guess.with_lanes(["tenant=b"], state, {"tenant=b": 4}, now=NOW)

    assert again.next_at == {"tenant=a": 5.0, "tenant=b": 7.0}
    assert again.revisions == {"tenant=a": 1, "tenant=b": 4}


def test_places_that_jobs_have_left_are_given_away_again():
    guesses = guesses_after(look())
    for _ in range(20):
        guesses.take("mail", LIMITS, "tenant=a", running=0)
    is_full = not is_guessed(guesses, wanted=1)

    for _ in range(25):
        guesses.left("mail")
    guesses.left("of another type")

    assert is_full
    assert is_guessed(guesses, wanted=20)
    assert not is_guessed(guesses, wanted=21), "more than half of the room was never known"


def test_what_a_claim_by_a_guess_has_started_is_taken_off_what_is_left_now():
    guesses = guesses_after(look())
    guess = guesses.of("mail", LIMITS, wanted=5, now=NOW)
    for _ in range(10):
        guesses.take("mail", LIMITS, "tenant=a", running=0)

    guesses.saw("mail", guess.less(5, {}), started=5)

    assert is_guessed(guesses, wanted=5)
    assert not is_guessed(guesses, wanted=6)


def test_a_full_look_says_anew_how_much_is_left():
    guesses = guesses_after(look())
    for _ in range(15):
        guesses.take("mail", LIMITS, "tenant=a", running=0)

    guesses.saw("mail", look(chosen=choice(4)).guess, started=4)

    assert is_guessed(guesses, wanted=16)
    assert not is_guessed(guesses, wanted=17)


def test_a_guess_that_was_given_up_meanwhile_stays_so():
    guesses = guesses_after(look())
    guess = guesses.of("mail", LIMITS, wanted=5, now=NOW)
    guesses.forget("mail")

    guesses.saw("mail", guess.less(5, {}), started=5)

    assert not is_guessed(guesses, wanted=1)


def test_room_that_was_found_is_remembered_longer_than_it_is_given_away():
    guesses = guesses_after(look())

    assert not is_guessed(guesses, wanted=20, now=NOW + ROOM_KEPT_SECONDS)
    assert guesses.is_roomy("mail", LIMITS, wanted=20)
    assert not guesses.is_roomy("mail", LIMITS, wanted=21)
    assert not guesses.is_roomy("mail", JobLimits(limit=Limit(40)), wanted=1)
    guesses.forget("mail")
    assert not guesses.is_roomy("mail", LIMITS, wanted=1)
