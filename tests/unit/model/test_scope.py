"""Who sees which jobs."""

from __future__ import annotations

import pytest

from shunter.errors import UniqueKeyTaken
from shunter.model.job import Job
from shunter.model.key import Key, Role
from shunter.model.scope import EVERYTHING, JobScope, scope_of
from shunter.model.uniqueness import answer_to, named_key

MINE = Job(id="mine", type="t", created=0, updated=0, namespace="team")
OTHERS = Job(id="others", type="t", created=0, updated=0, namespace="rivals")
NOBODYS = Job(id="nobodys", type="t", created=0, updated=0)


def key(role: Role, namespace: str = "") -> Key:
    return Key(name="k", role=role, public="", token_hash="", udp_key="", namespace=namespace)


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        (scope_of(None), [MINE, OTHERS, NOBODYS]),
        (scope_of(key(Role.CLIENT, "team")), [MINE]),
        (scope_of(key(Role.CLIENT)), [NOBODYS]),
        (scope_of(key(Role.OPERATOR)), [MINE, OTHERS, NOBODYS]),
        (scope_of(key(Role.OPERATOR, "team")), [MINE]),
        (scope_of(key(Role.READER)), [MINE, OTHERS, NOBODYS]),
        (scope_of(key(Role.READER, "rivals")), [OTHERS]),
    ],
)
def test_a_key_shows_its_namespace_or_all(scope, seen):
    jobs = [MINE, OTHERS, NOBODYS]

    assert [job for job in jobs if scope.shows(job)] == seen
    assert scope.shown([*jobs, None]) == [job if job in seen else None for job in [*jobs, None]]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("namespace", ["", "team"])
def test_a_scope_and_its_key_say_the_same(role, namespace):
    mine = key(role, namespace)

    for job in (MINE, OTHERS, NOBODYS):
        assert scope_of(mine).shows(job) == mine.sees(job.namespace)


@pytest.mark.parametrize(
    ("scope", "asked", "listed"),
    [
        (EVERYTHING, None, None),
        (EVERYTHING, "team", "team"),
        (JobScope("team"), None, "team"),
        (JobScope("team"), "team", "team"),
        (JobScope(""), None, ""),
    ],
)
def test_a_listing_is_of_what_is_in_scope(scope, asked, listed):
    assert scope.covers(asked)
    assert scope.listed(asked) == listed


@pytest.mark.parametrize("scope", [JobScope("team"), JobScope("")])
def test_a_listing_of_another_namespace_has_nothing(scope):
    assert not scope.covers("rivals")


def test_a_unique_key_is_named_with_its_namespace():
    assert named_key(MINE) is None
    keyed = Job(id="a", type="t", created=0, updated=0, namespace="n", unique_key="k")
    assert named_key(keyed) == ("n", "k")


def test_of_a_job_of_another_namespace_nothing_is_said_but_that_its_id_is_taken():
    mine = Job(id="others", type="t", created=0, updated=0, namespace="team")

    answer = answer_to(mine, OTHERS)

    assert isinstance(answer, UniqueKeyTaken)
    assert str(answer) == "job others: id: 'others' is taken; send another one"
    assert answer_to(OTHERS, OTHERS) is OTHERS
