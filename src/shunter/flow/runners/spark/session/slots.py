"""How many tasks Spark can run at once: known here, and on a cluster once executors have come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from shunter.flow.runners.spark.session.kinds import is_connect, is_local, pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARRIVAL_SECONDS = 15.0
"""How long a run waits for the first executor before it goes on without knowing."""

SETTLED_SECONDS = 1.0
"""Executors come one after the other; when none has come for so long, they are taken for all."""

LOOK_SECONDS = 0.1


def slots_of(session: SparkSession) -> int:
    """Return how many tasks can run at once on the executors that are there now."""
    context = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return int(context.maxNumConcurrentTasks(profile))


def nodes_of(session: SparkSession) -> int:
    """Return how many workers a stage has that asks for no number: as many as there are slots."""
    if is_connect(session):
        return _partitions_of_a_range(session)
    if not is_local(session) and "spark.default.parallelism" not in dict(
        session.sparkContext.getConf().getAll()
    ):
        settled_slots(lambda: slots_of(session))
    return session.sparkContext.defaultParallelism


def _partitions_of_a_range(session: SparkSession) -> int:
    """Ask a Connect server, which tells nothing about its cores: a range is cut for them."""
    number = pyspark("pyspark.sql.functions").spark_partition_id().alias("number")
    return int(session.range(1 << 12).select(number).distinct().count())


def settled_slots(
    slots: Callable[[], int],
    *,
    wanted: float = math.inf,
    settled: float = SETTLED_SECONDS,
    within: float = ARRIVAL_SECONDS,
) -> int:
    """Wait until there are as many slots as are wanted, or no more come; return how many."""
    began = changed = time.monotonic()
    found = slots()
    while found < wanted:
        now = time.monotonic()
        has_settled = found > 0 and now - changed >= settled
        if has_settled or now - began >= within:
            break
        time.sleep(LOOK_SECONDS)
        before, found = found, slots()
        if found != before:
            changed = time.monotonic()
    return found
