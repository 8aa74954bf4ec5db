"""Settings of Spark: whose count. Ours are defaults, and give way to everything a user has set.

In Spark's own order: `spark-submit --conf` and PYSPARK_SUBMIT_ARGS, what a program sets, then
`spark-defaults.conf`. Ours come behind them all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from shunter.flow.runners.spark.session.kinds import is_embedded
from shunter.flow.runners.spark.session.masters import is_on_loopback

LOCAL = "127.0.0.1"

_LINE = re.compile(r"(?P<key>[^\s=:]+)\s*[=:\s]\s*(?P<value>.*)")
_LOGGING = Path(__file__).with_name("log4j2.properties")


def conf_folder(environ: Mapping[str, str], installed: Path) -> Path:
    """Return where Spark reads its configuration; `installed` is PySpark's own folder."""
    if folder := environ.get("SPARK_CONF_DIR"):
        return Path(folder)
    return Path(environ.get("SPARK_HOME") or installed) / "conf"


def file_defaults(folder: Path) -> dict[str, str]:
    """Return what `spark-defaults.conf` says, which Spark reads as Java reads properties."""
    try:
        text = (folder / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    found = (_LINE.fullmatch(line.strip()) for line in lines if line.strip()[:1] not in "#!")
    return {each["key"]: each["value"].strip() for each in found if each is not None}


def our_defaults(master: str) -> dict[str, str]:
    """Return what we would set for a master if nobody else did."""
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Rows between tasks are packed: ten thousand of them, as Spark has it, may be gigabytes.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 20),
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if is_embedded(master):
        settings["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
    if is_on_loopback(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = LOCAL
        settings["spark.ui.port"] = "0"  # Spark gives up after 16 ports, with as many sessions
    return settings


def java_options(folder: Path) -> str:
    """Return options for a driver's Java that is started here; users' own come behind them.

    A driver without memory would keep its Python waiting forever, so it ends. Spark is quiet,
    unless the user has a logging configuration.
    """
    options = ["-XX:+ExitOnOutOfMemoryError"]
    if not any(folder.glob("log4j2*")):
        options.append(f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}")
    return " ".join(options)
