"""What kind of session one has, and PySpark itself, imported when first used."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CONNECT_SECONDS = 3.0
"""How long a master or a Connect server has to answer."""


def pyspark(module: str = "pyspark") -> Any:
    """Import a part of PySpark, or raise a FlowError that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FlowError(
            f"flows on Spark need PySpark, and it can't be imported ({error}); type: "
            "pip install 'shunter[spark]', or go without Spark: --on local, flow.run(\"local\")"
        ) from error


def is_local(session: SparkSession) -> bool:
    """True if executors are on this machine and in this session's own process."""
    return not is_connect(session) and is_embedded(str(session.sparkContext.master))


def is_connect(session: Any) -> bool:
    """True if this is a session on a Spark Connect server, which has no SparkContext."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_embedded(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None
