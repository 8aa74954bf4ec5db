"""Names of staging: legal everywhere, told apart, and read back as they were written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import StagingError, Superseded
from shunter.rerun.staging_names import (
    ASIDE,
    DROPPED,
    MAX_ATTEMPT,
    PREFIX,
    Owner,
    left_behind,
    overdue,
    owner_key,
    read_name,
    staging_name,
    suffix_of,
)

texts = st.text(min_size=1, max_size=300)
owners = st.builds(Owner, run_id=texts, job_id=texts, attempt=st.integers(0, MAX_ATTEMPT))
moments = st.floats(0, 4e9)
numbers = st.integers(0, 2**32 - 1)

JOB = Owner("november", "01job", 3)


def named(target: str, owner: Owner, *, opened: float = 1000.0, unique: int = 7) -> str:
    return staging_name(target, owner, opened=opened, unique=unique)


@given(texts, owners, moments, numbers)
def test_a_name_is_a_legal_file_table_and_collection_and_short(
    target: str, owner: Owner, opened: float, unique: int
) -> None:
    name = staging_name(target, owner, opened=opened, unique=unique)

    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
    assert not name.startswith(("sqlite_", "system"))
    assert len(name + suffix_of(target)) <= 128


@given(texts, owners, moments, numbers)
def test_a_name_tells_owner_attempt_and_time(
    target: str, owner: Owner, opened: float, unique: int
) -> None:
    name = staging_name(target, owner, opened=opened, unique=unique) + suffix_of(target)
    read = read_name(name)

    assert read == (PREFIX, owner_key(target, owner), owner.attempt, float(int(opened)))


@given(texts)
def test_a_name_of_the_users_is_not_taken_for_ours(name: str) -> None:
    assert read_name(name) is None


@pytest.mark.parametrize(
    "name",
    ["staging_events", "staging_events_november_3_4", "Staging" + "_x" * 10, "staging_"],
)
def test_a_name_that_only_begins_like_ours_is_left_alone(name: str) -> None:
    assert read_name(name) is None


def test_people_can_read_which_target_and_run_it_is() -> None:
    name = named("events", Owner("nightly/2026-11-15", "01job", 2))

    assert name.startswith("staging_events_nightly_2026_11_15_")


@given(texts, owners, texts, owners)
def test_different_owners_and_targets_have_different_keys(
    target: str, owner: Owner, other_target: str, other: Owner
) -> None:
    same = (target, owner[:2]) == (other_target, other[:2])

    assert (owner_key(target, owner) == owner_key(other_target, other)) == same


def test_an_attempt_drops_what_its_job_left_up_to_itself() -> None:
    older = [named("events", JOB._replace(attempt=n), unique=n) for n in (1, 2, 3)]

    assert left_behind(["events", *older], "events", JOB) == older


@pytest.mark.parametrize(
    ("target", "owner"),
    [
        ("events", JOB._replace(run_id="december")),
        ("events", JOB._replace(job_id="02job")),
        ("others", JOB),
    ],
)
def test_what_belongs_to_others_is_left_alone(target: str, owner: Owner) -> None:
    assert left_behind([named(target, owner)], "events", JOB) == []


def test_an_attempt_that_finds_a_newer_one_is_superseded() -> None:
    newer = named("events", JOB._replace(attempt=4))

    with pytest.raises(Superseded, match="attempt 3 published nothing, attempt 4 stages the same"):
        left_behind([newer], "events", JOB)


def test_what_a_newer_attempt_has_given_up_does_not_supersede() -> None:
    newer = named("events", JOB._replace(attempt=4)).removeprefix(PREFIX)

    assert left_behind([DROPPED + newer, ASIDE + newer], "events", JOB) == [
        DROPPED + newer,
        ASIDE + newer,
    ]


def test_only_what_is_old_enough_is_overdue() -> None:
    old, young = named("a", JOB, opened=1000), named("b", JOB, opened=1100)

    assert overdue([old, young, "a"], now=1110, older_than=60) == [old]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_age_that_spares_nobody_is_refused(seconds: float) -> None:
    with pytest.raises(StagingError, match="more than your longest job takes"):
        overdue([], now=0, older_than=seconds)


@pytest.mark.parametrize("attempt", [-1, MAX_ATTEMPT + 1])
def test_an_attempt_that_is_no_number_of_a_run_is_refused(attempt: int) -> None:
    with pytest.raises(StagingError, match="attempts are 0 to"):
        named("events", JOB._replace(attempt=attempt))


@pytest.mark.parametrize(
    ("target", "suffix"),
    [("a.csv", ".csv"), ("a.tar.gz", ".gz"), ("a", ""), (".hidden", ""), ("a.b c", ""), ("a.", "")],
)
def test_a_file_keeps_the_ending_that_tools_look_at(target: str, suffix: str) -> None:
    assert suffix_of(target) == suffix
