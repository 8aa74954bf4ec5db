"""How far a source of Spark's own is behind, by what Spark says of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shunter.flow.runners.spark.stream.source_lag import NOT_TOLD, lags_in
from shunter.flow.runtime.report import SourceLag

KAFKA: dict[str, Any] = {
    "description": "KafkaV2[Subscribe[orders]]",
    "startOffset": {"orders": {"0": 3, "1": 5}},
    "endOffset": {"orders": {"0": 10, "1": 20}},
    "latestOffset": {"orders": {"0": 12, "1": 120, "2": 7}},
    "numInputRows": 22,
    "metrics": {"maxOffsetsBehindLatest": "100", "avgOffsetsBehindLatest": "51.0"},
}
FILES = {
    "description": "FileStreamSource[file:/in]",
    "startOffset": None,
    "endOffset": {"logOffset": 0},
    "latestOffset": None,
}
TABLE = {
    **FILES,
    "endOffset": {"reservoirVersion": 4, "index": 2},
    "latestOffset": {"reservoirVersion": 9, "index": 0},
    "metrics": {"numFilesOutstanding": "17", "numBytesOutstanding": "90000"},
}
RATE = {"description": "RateStreamV2[rowsPerSecond=5]", "endOffset": 4, "latestOffset": 6}


def progress(*sources: object) -> str:
    return json.dumps({"batchId": 3, "sources": sources})


@pytest.mark.parametrize(
    ("source", "lag"),
    [
        (KAFKA, SourceLag(2 + 100 + 7, "events")),
        ({**KAFKA, "latestOffset": None}, SourceLag(100, "events in a partition")),
        (TABLE, SourceLag(17, "files")),
        (RATE, SourceLag(2, "offsets")),
        ({**RATE, "latestOffset": 3}, SourceLag(0, "offsets")),
        (FILES, NOT_TOLD),
        ({**FILES, "metrics": {"numFilesOutstanding": "many"}}, NOT_TOLD),
        ({**FILES, "metrics": {"numFilesOutstanding": "NaN"}}, NOT_TOLD),
        ({**RATE, "endOffset": None}, NOT_TOLD),
        ({**KAFKA, "endOffset": {"orders": {"0": "x"}}, "metrics": None}, NOT_TOLD),
        ({}, NOT_TOLD),
    ],
)
def test_a_source_says_how_far_it_is_behind_in_its_own_way(source: object, lag: SourceLag) -> None:
    assert lags_in(progress(source), ["rows"]) == {"rows": lag}


def test_sources_are_told_apart_by_their_order() -> None:
    found = lags_in(progress(RATE, FILES, KAFKA), ["clock", "", "orders"])
    assert found == {"clock": SourceLag(2, "offsets"), "orders": SourceLag(109, "events")}


def test_a_stage_that_reads_two_is_behind_by_both_if_they_count_alike() -> None:
    assert lags_in(progress(RATE, RATE), ["a", "a"]) == {"a": SourceLag(4, "offsets")}
    assert lags_in(progress(RATE, KAFKA), ["a", "a"]) == {"a": NOT_TOLD}
    assert lags_in(progress(RATE, FILES), ["a", "a"]) == {"a": NOT_TOLD}


@pytest.mark.parametrize("said", [progress(RATE), progress(), "{}", "no JSON", '{"sources": 3}'])
def test_what_does_not_fit_the_sources_tells_nothing(said: str) -> None:
    assert lags_in(said, ["a", "b"]) == {"a": NOT_TOLD, "b": NOT_TOLD}


def test_a_lag_is_said_in_words() -> None:
    assert str(SourceLag(1234, "events")) == "1,234 events"
    assert str(NOT_TOLD) == "not told by this source"
