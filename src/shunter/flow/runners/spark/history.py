"""The history of jobs as a DataFrame: `spark.read.format("shunter").option("store", URL).load()`.

Options are `store`, a URL as in store.url, and to have fewer rows `type`, `status` (words, with
commas) and `since` (24h, 7d, a date). Filters on type, status and ended are left to the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shunter.flow.runners.spark.session.kinds import is_local, pyspark
from shunter.flow.runners.spark.shipping.shipped_code import send_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "shunter"


def finished_jobs(store: str, **options: str) -> Callable[[SparkSession], DataFrame]:
    """Return what a `DataFrameSource` wants, for a flow over finished jobs."""

    def frame(session: SparkSession) -> DataFrame:
        return session.read.format(FORMAT).option("store", store).options(**options).load()

    return frame


def register(session: SparkSession) -> None:
    """Let a session read the format "shunter"; those that Shunter starts can by themselves."""
    pyspark()
    from shunter.flow.runners.spark.history_reader import JobsDataSource

    if not is_local(session):
        send_package(session)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(JobsDataSource)
