"""The format "shunter" for Spark, which looks for formats in packages whose names begin like this.

It is what `shunter.flow.spark.history` describes, and is found when a format is first asked for.
"""

from shunter.flow.spark.history_reader import JobsDataSource as DefaultSource

__all__ = ["DefaultSource"]
