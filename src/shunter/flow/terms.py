"""What those who ask for a run of a flow and those who do it agree on."""

from __future__ import annotations

from enum import StrEnum

FLOW_JOB = "shunter.flow"
"""The type of jobs that are flow runs."""

FOLDER_VARIABLE = "SHUNTER_FLOWS"
"""The environment variable that names the folder of a worker's flows."""

MASTERS_VARIABLE = "SHUNTER_SPARK_MASTERS"
"""The environment variable that lists, as JSON, the masters of Spark's that jobs may name."""

MOST_ENGINES = 64


class On(StrEnum):
    """What a flow runs on."""

    LOCAL = "local"
    ENGINES = "engines"
    SPARK = "spark"
