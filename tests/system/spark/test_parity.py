"""The flows of `flow_cases.py` have the same output on Spark as in one process.

All of them with SHUNTER_LONG=1, and then with Spark's adaptive execution; else those that show
something of Spark's own, and a few of them with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flow_cases
from parity import output_of, run_case
from shunter.errors import FlowError
from shunter.flow.runtime.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_ELSEWHERE = {
    "plain_values": "everything_mixed, which has events of all types",
    "dicts": "everything_mixed",
    "lists": "everything_mixed",
    "tuples": "everything_mixed",
    "dataclasses": "everything_mixed",
    "structs": "everything_mixed",
    "named_tuples": "everything_mixed",
    "types_in_types": "everything_mixed",
    "enums": "everything_mixed",
    "types_of_the_standard_library": "everything_mixed",
    "one_to_one": "in_a_row, which has functions of all kinds",
    "filtered": "in_a_row",
    "split": "in_a_row",
    "balanced_over_four_workers": "more_workers_and_then_fewer",
    "one_hot_key": "test_keyed_state.py, one hot key",
    "a_key_for_each_event": "test_keyed_state.py, with thousands of keys",
    "a_generator_for_each_key": "test_keyed_state.py, a class that yields",
    "instructions_of_two_sources": "an_instruction_by_two_ways",
    "bad_events_left_out": "test_batch_runs.py, skipped events",
    "bad_lines_left_out": "bad_lines_in_letters",
    "tumbling_windows": "sliding_windows_of_datetimes; test_native.py has windows in columns",
    "windows_that_close_in_time": "late_events",
    "late_events_that_nobody_takes": "late_events",
    "windows_behind_what_is_held": "windows_behind_two_ways_of_which_one_holds",
    "events_of_several_readers_by_a_function": "sessions_of_several_readers",
    "repeated_events_of_several_readers": "events_that_come_again, sessions_of_several_readers",
    "events_let_go_in_time": "events_too_late_for_their_turn",
    "late_events_in_letters": "events_too_late_for_their_turn",
    "times_with_zones_in_containers": "times_with_zones_in_types",
    "times_with_zones_in_structs": "times_with_zones_in_types",
}
"""Cases that are left to the long run, and what still shows in every run that they work."""

ADAPTIVE = {
    "everything_mixed", "several_outputs", "a_running_sum_by_key", "late_events",
    "every_aggregate_by_a_field", "an_instruction_by_two_ways", "merged_inputs_by_time",
}  # fmt: skip
"""Cases that run with adaptive execution, as Spark has it, each with other stages and shuffles."""

IS_LONG = bool(os.environ.get("SHUNTER_LONG"))
CASES = [case for case in flow_cases.CASES if IS_LONG or case not in SHOWN_ELSEWHERE]


@pytest.fixture
def adaptive(case: str, spark: SparkSession) -> Iterator[None]:
    setting = "spark.sql.adaptive.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, str(IS_LONG or case in ADAPTIVE).lower())
    yield
    spark.conf.set(setting, before)


def counts(stages: list[StageReport]) -> list[tuple[str, int, int]]:
    return [(stage.name, stage.taken, stage.given) for stage in stages]


@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize("case", CASES)
def test_a_flow_has_the_same_output_on_spark(
    case: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("here", "on_spark")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("FLOW_CASES", str(folders[0]))
    told = run_case(case, "on_two_nodes")

    monkeypatch.setenv("FLOW_CASES", str(folders[1]))
    told_on_spark = run_case(case, "on_spark", session=spark)

    expected, found = (output_of(case, folder) for folder in folders)
    assert expected.events.total() == flow_cases.CASES[case]
    assert found.events == expected.events
    assert found.by_key == expected.by_key
    assert counts(told_on_spark) == counts(told)


def test_a_bad_event_ends_a_run_with_the_same_words(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOW_CASES", str(tmp_path))
    with pytest.raises(FlowError) as caught:
        run_case("stopped", "on_spark", session=spark)

    said = str(caught.value)
    assert "stage 'inverse': ZeroDivisionError: division by zero, at the event 0" in said
    assert "return 12 / number" in said
    assert "java" not in said.lower()
    assert caught.value.stage == "inverse"
