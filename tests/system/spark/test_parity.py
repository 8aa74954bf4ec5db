"""The flows of `flow_cases.py` have the same output on Spark as in one process.

With SHUNTER_LONG=1 also those with events of one type, for `everything_mixed` has all types.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flow_cases
from parity import output_of, run_case
from shunter.errors import FlowError
from shunter.flow.runtime.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OF_ONE_TYPE = {
    "plain_values", "lists", "tuples", "dataclasses", "named_tuples", "types_in_types", "enums",
    "types_of_the_standard_library",
}  # fmt: skip

IS_LONG = bool(os.environ.get("SHUNTER_LONG"))
CASES = [case for case in flow_cases.CASES if IS_LONG or case not in OF_ONE_TYPE]


def counts(stages: list[StageReport]) -> list[tuple[str, int, int]]:
    return [(stage.name, stage.taken, stage.given) for stage in stages]


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
