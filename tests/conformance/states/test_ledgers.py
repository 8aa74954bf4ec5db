"""What a stream has committed, and who may commit: also where nothing can be locked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.ledger import Commit, Ledger, written


def commit_of(batch: int, said: str = "") -> Commit:
    return Commit(
        batch=batch,
        sinks=written({"out.0": [b"\xff", (1, 2)]}),
        states={},
        counts={},
        offsets={"numbers.0": said},
    )


def owner(place: Location, token: str) -> Ledger:
    ledger = Ledger(place, token)
    ledger.take_over()
    return ledger


def test_the_last_commit_is_found_again(place: Location) -> None:
    ledger = owner(place, "me")
    assert ledger.last() is None

    for batch in range(12):
        with ledger.owned():
            ledger.keep(commit_of(batch))

    found = Ledger(place, "another").last()
    assert found == commit_of(11)
    assert found.position("out.0") == [b"\xff", [1, 2]]
    assert found.position("a new one.0") is None
    assert len((place / "commits").files()) == 2


def test_who_was_taken_over_commits_nothing(place: Location) -> None:
    old = owner(place, "old")
    new = owner(place, "new")

    with pytest.raises(FlowError, match=r"taken over by new, so this driver \(old\)"), old.owned():
        old.keep(commit_of(7))

    assert new.last() is None
    with new.owned():
        new.keep(commit_of(0))
    assert Ledger(place, "reader").last() == commit_of(0)


def test_a_commit_that_arrives_after_the_take_over_never_counts(place: Location) -> None:
    """The old driver has looked whether it is the owner, and is slow to write."""
    old = owner(place, "old")
    with old.owned():
        old.keep(commit_of(0, "old"))
    new = owner(place, "new")

    with pytest.raises(FlowError, match="taken over by new"):
        old.keep(commit_of(1, "old"))  # without having looked again

    assert new.last() == commit_of(0, "old")
    assert owner(place, "a third").last() == commit_of(0, "old")
    third = owner(place, "a fourth")
    with third.owned():
        third.keep(commit_of(1, "third"))
    with pytest.raises(FlowError, match="taken over"):
        old.keep(commit_of(2, "old"))
    assert owner(place, "a fifth").last() == commit_of(1, "third")


def test_of_two_that_take_over_at_once_one_has_it(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Ledger(place, "one"), Ledger(place, "other")
    real: Callable[..., Any] = Ledger._write_term

    def while_another_does(ledger: Ledger, term: Any) -> None:
        if ledger is one and not other._term:
            other._term = f"{one._term[:8]}.zzzzzzzz"  # it has seen the same terms
            real(other, term.__class__(owner="other", after=""))
        real(ledger, term)

    monkeypatch.setattr(Ledger, "_write_term", while_another_does)
    one.take_over()

    one.check_owner()
    with pytest.raises(FlowError, match="taken over by one"):
        other.check_owner()


def test_a_commit_that_was_not_written_to_its_end_does_not_count(place: Location) -> None:
    ledger = owner(place, "me")
    with ledger.owned():
        ledger.keep(commit_of(0))
    (place / "commits" / f"{ledger._term}-00000001.json.part").write(b'{"batch": 1')

    assert ledger.last() == commit_of(0)
    assert Ledger(place, "another").last() == commit_of(0)


def test_a_driver_that_dies_at_any_step_of_taking_over_changes_nothing(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = owner(place, "old")
    with old.owned():
        old.keep(commit_of(3))
    real: Callable[..., Any] = Ledger._write_term
    for step in range(3):
        left = [step]

        def dying(ledger: Ledger, term: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            real(ledger, term)

        monkeypatch.setattr(Ledger, "_write_term", dying)
        try:
            owner(place, f"dies at {step}")
        except KeyboardInterrupt:
            assert step < 2
        monkeypatch.setattr(Ledger, "_write_term", real)
        assert Ledger(place, "reader").last() == commit_of(3)
    new = owner(place, "new")
    with new.owned():
        new.keep(commit_of(4))
    assert Ledger(place, "reader").last() == commit_of(4)
    assert len((place / "terms").files()) == len((place / "commits").files()) == 1
