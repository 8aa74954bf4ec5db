"""Spark's daemon of Python processes, with the imports done that each of them would do anew.

Spark forks a Python process for a task and has it import PyArrow and the flow's code then, with
what that imports, for up to half a second of processor time; a suite of tests starts hundreds. This
one imports first and forks then. PySpark does not, for libraries might start threads as they are
imported, and threads do not outlive a fork; of those that are imported here none does with Spark's
environment.

It is Spark's setting `spark.python.daemon.module`, and Spark starts it.
"""

from __future__ import annotations

import gc
import importlib
import sys

from pyspark import daemon

AHEAD = (
    "pyarrow.parquet",
    "pyspark.sql.datasource",
    "pyspark.sql.pandas.serializers",
    "pytest",
    "shunter.flow.sinks",
    "shunter.flow.sources",
    "shunter.flow.runners.spark.batch.tasks",
    "shunter.flow.runners.spark.stream.tasks",
)
"""What tasks import, and tests that have flows in them, beside what the worker's module does."""


def import_ahead(worker: str) -> None:
    for name in (worker, *AHEAD):
        importlib.import_module(name)
    gc.freeze()


if __name__ == "__main__":
    import_ahead(sys.argv[1])
    daemon.manager()
