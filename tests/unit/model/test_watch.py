"""A value's age is how long it was seen unchanged, whatever it says."""

from __future__ import annotations

from shunter.model.watch import Watch


def test_a_value_is_new_when_it_is_first_seen() -> None:
    assert Watch().unchanged_for("w", 1.0, now=500.0) == 0.0


def test_a_value_ages_until_it_changes() -> None:
    watch = Watch()
    watch.unchanged_for("w", 1.0, now=100.0)

    assert watch.unchanged_for("w", 1.0, now=107.0) == 7.0
    assert watch.unchanged_for("w", 0.5, now=108.0) == 0.0, "any change counts, also a smaller one"
    assert watch.unchanged_for("w", 0.5, now=110.0) == 2.0


def test_what_is_forgotten_begins_anew() -> None:
    watch = Watch()
    for key in "abc":
        watch.unchanged_for(key, 1, now=0.0)
    watch.forget("a")
    watch.keep_only({"a", "b"})

    assert [watch.unchanged_for(key, 1, now=9.0) for key in "abc"] == [0.0, 9.0, 0.0]
