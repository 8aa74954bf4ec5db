"""The flows of `flow_cases.py` have the same output as streams on Spark as in one process.

All of them with SHUNTER_LONG=1; else one of each kind, for each takes seconds, and what takes them
is how many batches there are, not how many flows.
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
    "a_running_sum_by_key": 600,
    "a_key_for_each_event": 6_000,
    "equal_keys_of_different_types": 40,
    "a_snapshot_of_its_own": 1_600,
    "several_outputs": 70,
    "several_sources": 120,
    "an_instruction_in_the_middle": 650,
    "an_instruction_by_two_ways": 301,
    "bad_events_left_out": 60,
    "bad_events_in_letters": 60,
    "everything_mixed": 400,
    "a_file_in_parts": 400,
    "bad_lines_in_letters": 40,
    "times_with_zones_in_types": 15,
    "every_aggregate_by_a_field": 600,
    "windows_that_close_in_time": 600,
    "late_events": 600,
    "a_watermark_in_the_middle": 13,
    "events_that_come_again": 150,
    "sessions_of_several_readers": 130,
    "merged_inputs_by_time": 110,
    "times_with_zones_in_order": 180,
    "events_too_late_for_their_turn": 600,
    "windows_behind_what_is_held": 600,
}
"""How many events a batch has, so that a flow needs two; without a word it has 1,500."""

SHOWN_ELSEWHERE = {
    "in_a_row": "here, several_outputs; test_streaming_runs.py",
    "an_instruction_in_the_middle": "here, an_instruction_by_two_ways; test_streaming_deaths.py",
    "bad_events_left_out": "here, bad_events_in_letters",
    "a_running_sum_by_key": "test_streaming_changes.py, on other numbers of nodes too",
    "a_key_for_each_event": "test_streaming_changes.py, with 10,000 keys",
    "several_sources": "here, merged_inputs_by_time",
    "times_with_zones_in_types": "here, everything_mixed; test_parity.py has the zones",
    "windows_that_close_in_time": "here, late_events, which has a way for the late ones too",
    "events_that_come_again": "test_streaming_deaths.py",
    "sessions_of_several_readers": "here, a_file_in_parts for readers; test_parity.py for sessions",
    "bad_lines_in_letters": "here, bad_events_in_letters; test_file_splits.py has a bad line",
    "windows_behind_what_is_held": "here, late_events; test_parity.py has ways that hold",
    "times_with_zones_in_order": "here, events_too_late_for_their_turn; test_parity.py for zones",
}
"""Cases that are left to the long run, and what still shows in every run that they work."""

CASES = (
    list(flow_cases.CASES)
    if os.environ.get("SHUNTER_LONG")
    else [case for case in EVENTS_AT_ONCE if case not in SHOWN_ELSEWHERE]
)


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
    assert all(bool(stage.last_error) == bool(stage.failed) for stage in told_by_stream)
