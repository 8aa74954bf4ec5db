"""Brings the rows of a sink to the driver in bounded pieces, in order.

Few rows come with one job. Where a partition has many, it tells only that; then all rows are sorted
and cut into pieces by Spark, on its disks, and come one piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shunter.flow.runners.spark.batch.envelopes import COLUMNS, ORDER, EnvelopeRow, Rows, rows_in
from shunter.flow.runners.spark.session.kinds import is_connect, pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PIECE_BYTES = 4 << 20
FEW_BYTES, FEW_PARTITIONS = 512 << 10, 64
"""The first partitions may send this much at once; what is more comes in pieces."""

TOO_MANY = -1
"""Stands in place of a node in the row of a partition that has more; its size is the number."""


def bounded_rows(frame: DataFrame, check: Callable[[], None]) -> Iterator[EnvelopeRow]:
    """Yield the rows by node and then in their order; `check` raises if the run must stop."""
    kept = frame.persist(pyspark().StorageLevel.DISK_ONLY)
    try:
        table = kept.mapInArrow(FewRows(FEW_BYTES), COLUMNS).toArrow()
        found = [row for batch in table.to_batches() for row in rows_in(batch)]
        many = sum(row.seq for row in found if row.node == TOO_MANY)
        check()
        if not many:
            yield from sorted(found, key=_order)
            return
        few = sum(len(row.body) for row in found)
        pieces = -(-(many + few) // PIECE_BYTES)
        del found, table
        placed = kept.repartitionByRange(max(1, pieces), "node", *ORDER)
        for row in _piece_by_piece(placed.sortWithinPartitions("node", *ORDER)):
            check()
            yield EnvelopeRow(*row)
    finally:
        kept.unpersist()


def _piece_by_piece(frame: DataFrame) -> Iterator[Any]:
    """Yield rows of one partition after the other, each fetched by a job of its own.

    `toLocalIterator` does the same, but the driver's Java keeps all that it has ever brought.
    """
    if is_connect(frame.sparkSession):
        yield from frame.toLocalIterator(True)
        return
    rows = frame.rdd
    for piece in range(rows.getNumPartitions()):
        yield from frame.sparkSession.sparkContext.runJob(rows, iter, [piece])


@dataclass
class FewRows:
    """Called by Spark with the rows of a partition; passes few, and of many only their size."""

    few_bytes: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        is_first = context is not None and context.partitionId() < FEW_PARTITIONS
        room = self.few_bytes if is_first else self.few_bytes // FEW_PARTITIONS
        held, size = [], 0
        for batch in batches:
            size += batch.nbytes
            if size <= room:
                held.append(batch)
            else:
                held.clear()
        yield from held
        if size > room:
            rows = Rows()
            rows.append(EnvelopeRow(0, TOO_MANY, 0, True, 0, size, "", b""))
            yield rows.batch()


def _order(row: EnvelopeRow) -> tuple[Any, ...]:
    return row.node, row.epoch, row.is_instruction, row.edge, row.sender, row.seq
