"""What of Spark's filters the reader of finished jobs takes to itself."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, IsNotNull

from shunter.flow.runners.spark.history_reader import JobsReader
from shunter.flow.sources.job_history import Wanted, wanted
from shunter.model.job import Status

MOMENT = datetime.datetime(2026, 1, 31, 8, 0, 0, 500_000, tzinfo=datetime.UTC)


def narrowed(*filters: Filter, given: Wanted = wanted()) -> Wanted:  # noqa: B008
    reader = JobsReader("sqlite:///x.db", given)
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark is to repeat them"
    return reader._wanted


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([EqualTo(("type",), "a")], wanted(type="a")),
        ([In(("status",), ("failed", "queued"))], wanted(status="failed")),
        ([EqualTo(("status",), "queued")], Wanted(statuses=())),
        ([GreaterThanOrEqual(("ended",), MOMENT)], wanted(since=float(int(MOMENT.timestamp())))),
        ([IsNotNull(("type",)), EqualTo(("worker_id",), "w")], wanted()),
    ],
)
def test_a_filter_makes_the_reader_read_less(filters: list[Filter], found: Wanted) -> None:
    assert narrowed(*filters) == found


def test_filters_and_options_hold_together() -> None:
    given = wanted(type="a", status="failed", since="2026-06-01")
    both = narrowed(
        EqualTo(("type",), "b"),
        In(("status",), ("failed", "completed")),
        GreaterThanOrEqual(("ended",), MOMENT),
        given=given,
    )

    assert both.types == ()
    assert both.statuses == (Status.FAILED,)
    assert both.since == given.since
