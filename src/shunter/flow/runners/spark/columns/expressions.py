"""Aggregates and windows as Spark's own expressions, with the results that they have in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shunter.flow.graph.aggregates import (
    SKETCH_SIZE,
    Aggregate,
    Aggregation,
    ApproxDistinct,
    Count,
    Max,
    Mean,
    Min,
    Sum,
)
from shunter.flow.graph.windows import Window
from shunter.flow.runners.spark.dataframe_source import TAKEN
from shunter.flow.runners.spark.session.kinds import pyspark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def aggregated(
    frame: DataFrame,
    what: Aggregation,
    key: str,
    columns: Sequence[str],
    *,
    bad_time: str | None = None,
) -> DataFrame:
    """Return the results of an aggregation, with TAKEN beside them.

    `columns` are the names of those with the key, the time where there are windows, and the
    values; `key` is what the key is called in results. `bad_time` is what is said where a time is
    none, and the run ends; with None such rows are left out.
    """
    functions = pyspark("pyspark.sql.functions")
    own, *rest = columns
    groups = [functions.col(f"`{own}`").alias(key)]
    is_first = functions.lit(True)
    if what.window is not None:
        time, *rest = rest
        is_timestamp = _type_of(frame, time) == "timestamp"
        frame = _in_windows(frame, what.window, time, bad_time)
        groups.append(functions.col("_start"))
        is_first = functions.col("_is_first")
    values = iter(rest)
    told = []
    for name, aggregate in what.aggregates.items():
        value = None if aggregate.getter is None else functions.col(f"`{next(values)}`")
        told.append(_MADE[type(aggregate)](functions, value).alias(name))
    taken = functions.count(functions.when(is_first, True)).alias(TAKEN)
    results = frame.groupBy(*groups).agg(*told, taken)
    if what.window is None:
        return results
    times = _times(what.window, is_timestamp=is_timestamp)
    names = [functions.col(f"`{name}`") for name in what.aggregates]
    return results.select(functions.col(f"`{key}`"), *times, *names, TAKEN)


def _distinct(functions: Any, value: Column | None) -> Any:
    sketch = functions.hll_sketch_agg(value, functions.lit(SKETCH_SIZE))
    return functions.coalesce(functions.hll_sketch_estimate(sketch), functions.lit(0))


_MADE: dict[type[Aggregate], Callable[[Any, Any], Any]] = {
    Count: lambda functions, _: functions.count(functions.lit(1)),
    Sum: lambda functions, value: functions.sum(value),
    Min: lambda functions, value: functions.min(value),
    Max: lambda functions, value: functions.max(value),
    Mean: lambda functions, value: functions.avg(value),
    ApproxDistinct: _distinct,
}


def _in_windows(frame: DataFrame, window: Window, time: str, bad_time: str | None) -> DataFrame:
    """Return each row once for each window that it is in, with the start of that."""
    functions = pyspark("pyspark.sql.functions")
    is_whole = _is_whole(frame, time, window)
    moment = _moment(frame, time, is_whole=is_whole)
    is_good = moment.isNotNull()
    if not is_whole:
        is_good &= functions.abs(moment) < functions.lit(float("inf"))
    if bad_time is None:
        frame = frame.where(is_good)
    else:
        failed = functions.raise_error(functions.lit(bad_time))
        failed = failed.cast("long" if is_whole else "double")
        moment = functions.when(is_good, moment).otherwise(failed)
    frame = frame.withColumn("_moment", moment)
    last = _last_start(functions.col("_moment"), window, is_whole=is_whole)
    if window.most == 1:
        frame = frame.withColumn("_start", last).withColumn("_is_first", functions.lit(True))
    else:
        starts = [last - functions.lit(number * window.every) for number in range(window.most)]
        frame = frame.withColumn("_last", last).withColumn(
            "_start", functions.explode(functions.array(*starts))
        )
        frame = frame.withColumn("_is_first", functions.col("_start") == functions.col("_last"))
    end = functions.col("_start") + functions.lit(window.size)
    return frame.where(end > functions.col("_moment"))


def _moment(frame: DataFrame, time: str, *, is_whole: bool) -> Column:
    functions = pyspark("pyspark.sql.functions")
    given: Column = functions.col(f"`{time}`")
    if _type_of(frame, time) == "timestamp":
        return functions.unix_micros(given) / functions.lit(1e6)  # type: ignore[no-any-return]
    return given.cast("long" if is_whole else "double")


def _last_start(moment: Column, window: Window, *, is_whole: bool) -> Column:
    functions = pyspark("pyspark.sql.functions")
    if is_whole:
        every = functions.lit(window.every).cast("long")
        return moment - functions.pmod(moment, every)  # type: ignore[no-any-return]
    every = functions.lit(float(window.every))
    return functions.floor(moment / every).cast("double") * every  # type: ignore[no-any-return]


def _times(window: Window, *, is_timestamp: bool) -> list[Column]:
    functions = pyspark("pyspark.sql.functions")
    start = functions.col("_start")
    times = [start, start + functions.lit(window.size)]
    if is_timestamp:
        micros = [functions.round(each * functions.lit(1e6)).cast("long") for each in times]
        times = [functions.timestamp_micros(each) for each in micros]
    return [each.alias(name) for each, name in zip(times, ("start", "end"), strict=True)]


def _is_whole(frame: DataFrame, time: str, window: Window) -> bool:
    """True if windows are computed in whole numbers."""
    is_int = _type_of(frame, time) in ("byte", "short", "integer", "long")
    return is_int and isinstance(window.size, int) and isinstance(window.every, int)


def _type_of(frame: DataFrame, name: str) -> str | None:
    names = {field.name: field.dataType.typeName() for field in frame.schema.fields}
    return names.get(name)
