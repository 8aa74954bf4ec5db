"""How long a run waits for Spark's executors."""

from __future__ import annotations

from itertools import chain, repeat

from shunter.flow.runners.spark.session.slots import settled_slots


def test_enough_slots_are_not_waited_for() -> None:
    assert settled_slots(lambda: 4, wanted=2, settled=60, within=60) == 4


def test_slots_that_come_one_after_the_other_are_waited_for() -> None:
    counts = chain([0, 1, 1, 2], repeat(3))

    assert settled_slots(lambda: next(counts), wanted=3, settled=60, within=60) == 3


def test_slots_that_do_not_come_any_more_are_all() -> None:
    counts = chain([0, 1], repeat(2))

    assert settled_slots(lambda: next(counts), settled=0.3, within=60) == 2


def test_where_none_come_at_all_it_is_given_up() -> None:
    assert settled_slots(lambda: 0, wanted=2, settled=60, within=0.2) == 0
