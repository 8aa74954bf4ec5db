"""The flows of `flow_cases.py` have the same output as streams on Spark as in one process.

All of them with SHUNTER_LONG=1; else one of each kind, for each takes some seconds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flow_cases
from parity import output_of, run_case
from shunter.flow.runtime.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS_AT_ONCE = {
    "in_a_row": 60,
    "nothing_at_all": 10,
    "to_all_of_two_workers": 60,
    "a_running_sum_by_key": 400,
    "a_key_for_each_event": 6_000,
    "equal_keys_of_different_types": 40,
    "a_snapshot_of_its_own": 1_600,
    "several_outputs": 70,
    "several_sources": 120,
    "an_instruction_in_the_middle": 450,
    "an_instruction_by_two_ways": 301,
    "bad_events_left_out": 60,
    "bad_events_in_letters": 60,
    "everything_mixed": 400,
    "a_file_in_parts": 400,
    "bad_lines_in_letters": 30,
    "times_with_zones_in_types": 15,
    "every_aggregate_by_a_field": 400,
    "windows_that_close_in_time": 400,
    "late_events": 400,
    "a_watermark_in_the_middle": 5,
    "events_that_come_again": 150,
    "sessions_of_several_readers": 100,
    "merged_inputs_by_time": 90,
    "times_with_zones_in_order": 120,
    "events_too_late_for_their_turn": 400,
    "windows_behind_what_is_held": 400,
}
"""For the short run: how many events a batch has, so that most flows need two or three."""

CASES = flow_cases.CASES if os.environ.get("SHUNTER_LONG") else EVENTS_AT_ONCE


def counts(stages: list[StageReport]) -> list[tuple[str, int, int, int]]:
    return [(stage.name, stage.taken, stage.given, stage.failed) for stage in stages]


@pytest.mark.parametrize("case", CASES)
def test_a_flow_has_the_same_output_as_a_stream(
    case: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("here", "as_a_stream")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("FLOW_CASES", str(folders[0]))
    told = run_case(case, "on_two_nodes")

    monkeypatch.setenv("FLOW_CASES", str(folders[1]))
    told_by_stream = run_case(
        case,
        "as_a_stream",
        session=spark,
        checkpoints=tmp_path / "checkpoint",
        max_events=EVENTS_AT_ONCE.get(case, 1_500),
    )

    expected, found = (output_of(case, folder) for folder in folders)
    assert expected.events.total() == flow_cases.CASES[case]
    assert found.events == expected.events
    assert found.by_key == expected.by_key
    assert counts(told_by_stream) == counts(told)
