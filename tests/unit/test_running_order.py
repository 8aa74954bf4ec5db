"""The order in which several of pytest's processes share the files of tests."""

from __future__ import annotations

from pathlib import Path

from running_order import LONGEST, place_of, unit_of

PROJECT = Path(__file__).parents[2]


def test_what_is_said_to_take_long_is_there_and_named_once():
    assert [unit for unit in LONGEST if not (PROJECT / unit).exists()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_the_longest_begin_and_tests_without_processes_end():
    nodes = [f"{unit}/test_x.py::test_x" if "." not in unit else f"{unit}::x" for unit in LONGEST]
    others = ["tests/system/test_listing_by_id.py::x", "tests/unit/test_layers.py::x"]

    assert sorted([*others[::-1], *nodes[::-1]], key=place_of) == [*nodes, *others]


def test_all_that_share_a_session_of_spark_are_one_unit_and_drivers_are_not():
    here, there = "tests/system/spark/test_native.py::x", "tests/system/spark/test_parity.py::x"

    assert unit_of(here) == unit_of(there)
    assert unit_of("tests/system/spark/drivers/test_memory.py::x").endswith("test_memory.py")
