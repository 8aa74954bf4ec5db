"""What Spark calls to read the history of jobs, in the driver's Python and in executors.

Only `history.register` imports it: the classes here are PySpark's subclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
)
from pyspark.sql.types import StructType

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.runners.spark.session.faults import marked_faults
from shunter.flow.sources.job_history import (
    COLUMNS,
    ENDINGS,
    Wanted,
    history,
    record_of,
    wanted,
    with_statuses,
)

OPTIONS = ("store", "type", "status", "since")
WHO = "the history of jobs"


class JobsDataSource(DataSource):
    """The format "shunter"."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        with marked_faults(WHO):
            given = {name.lower(): value for name, value in options.items()}
            if unknown := [name for name in given if name not in OPTIONS]:
                raise FlowError(f"{WHO}: no option {unknown[0]!r}; there are {', '.join(OPTIONS)}")
            if not given.get("store"):
                raise FlowError(f'{WHO}: no store was named; add .option("store", URL)')
            self._store = given["store"]
            self._wanted = wanted(
                type=given.get("type"),
                status=given.get("status", tuple(ENDINGS)),
                since=given.get("since"),
            )

    @classmethod
    def name(cls) -> str:
        return "shunter"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

    def reader(self, schema: StructType) -> JobsReader:
        return JobsReader(self._store, self._wanted)


class HistoryPart(InputPartition):
    """The jobs of one status."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class JobsReader(DataSourceReader):
    """Reads each status in a task of its own."""

    def __init__(self, store: str, wanted: Wanted) -> None:
        self._store, self._wanted = store, wanted

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for each in filters:
            narrow = _NARROWED.get((type(each), getattr(each, "attribute", ())))
            if narrow is not None:
                self._wanted = narrow(self._wanted, each)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        with marked_faults(WHO), history(self._store):
            pass
        statuses = self._wanted.statuses
        return [HistoryPart(with_statuses(self._wanted, (status,))) for status in statuses]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, HistoryPart), "one of ours"
        with marked_faults(WHO), history(self._store) as reader:
            for page in reader.jobs(partition.wanted):
                yield _batch([record_of(job) for job in page])


# ---- filters: those that Spark repeats behind us may let more through than they should


def _only_types(these: Wanted, words: Iterable[Any]) -> Wanted:
    types = [word for word in words if these.types is None or word in these.types]
    return Wanted(these.statuses, tuple(types), these.since, these.until)


def _only_statuses(these: Wanted, words: Iterable[Any]) -> Wanted:
    statuses = {ENDINGS[word] for word in words if word in ENDINGS}
    return with_statuses(these, tuple(each for each in these.statuses if each in statuses))


def _from(these: Wanted, moment: Any) -> Wanted:
    second = float(int(moment.timestamp()))  # what is kept has finer times than a column
    since = second if these.since is None else max(these.since, second)
    return Wanted(these.statuses, these.types, since, these.until)


_NARROWED: dict[tuple[type, tuple[str, ...]], Callable[[Wanted, Any], Wanted]] = {
    (EqualTo, ("type",)): lambda these, each: _only_types(these, [each.value]),
    (In, ("type",)): lambda these, each: _only_types(these, each.value),
    (EqualTo, ("status",)): lambda these, each: _only_statuses(these, [each.value]),
    (In, ("status",)): lambda these, each: _only_statuses(these, each.value),
    (GreaterThan, ("ended",)): lambda these, each: _from(these, each.value),
    (GreaterThanOrEqual, ("ended",)): lambda these, each: _from(these, each.value),
}


# ---- columns


def _batch(records: list[dict[str, Any]]) -> Any:
    columns = {name: [record[name] for record in records] for name in COLUMNS}
    for name, kind in COLUMNS.items():
        if kind == "timestamp":
            columns[name] = [None if at is None else round(at * 1e6) for at in columns[name]]
    pyarrow = arrow()
    types = {
        "string": pyarrow.string(),
        "bigint": pyarrow.int64(),
        "double": pyarrow.float64(),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
    }
    fields = [(name, types[kind]) for name, kind in COLUMNS.items()]
    return pyarrow.RecordBatch.from_pydict(columns, schema=pyarrow.schema(fields))
