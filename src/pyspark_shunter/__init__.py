"""The format "shunter" for Spark, which looks for formats in packages whose names begin like this.

`shunter.flow.runners.spark.history` describes it. Spark finds it when the format is first used.
"""

from shunter.flow.runners.spark.history_reader import JobsDataSource as DefaultSource

__all__ = ["DefaultSource"]
