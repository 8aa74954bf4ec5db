"""The Spark session of this process: quiet, on loopback where it is local, started once."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from shunter.errors import FlowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED = "local[*]"
OLDEST_JAVA = 17
CONNECT_SECONDS = 3.0

_LOGGING = Path(__file__).with_name("log4j2.properties")
_MASTER = re.compile(r"local(\[.*\])?$|spark://[^/:]+:\d+|k8s://.|yarn$")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def spark_session(
    master: str | None = None, *, name: str = "shunter", options: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session that this process has, or start one.

    `master` is what Spark calls so: local[*], where nothing is said, or spark://HOST:PORT.
    `options` are settings of Spark, which count only where the session is started.
    """
    sql = pyspark("pyspark.sql")
    running: SparkSession | None = sql.SparkSession.getActiveSession()
    if running is not None and running.sparkContext._jsc is not None:
        return _fitting(running, master)
    master = EMBEDDED if master is None else master
    _check_java()
    _check_reachable(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _is_embedded(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.master": master, "spark.app.name": name, **_settings(master)}
    try:
        session: SparkSession = _started({**settings, **(options or {})})
    except Exception as error:
        raise FlowError(
            f"Spark does not start on {master!r}: {_first_line(error)}; check the master and the "
            "options, and 'shunter doctor' checks this machine"
        ) from error
    return session


def pyspark(module: str = "pyspark") -> Any:
    """Import a part of PySpark, or raise a FlowError that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FlowError(
            f"flows on Spark need PySpark, and it can't be imported ({error}); type: "
            "pip install 'shunter[spark]'"
        ) from error


def is_local(session: SparkSession) -> bool:
    """Tell whether executors are on this machine and in this session's own process."""
    return _is_embedded(str(session.sparkContext.master))


def _started(settings: Mapping[str, str]) -> SparkSession:
    conf = pyspark().SparkConf().setAll(list(settings.items()))
    piped = {"stderr": subprocess.PIPE}
    gateway = pyspark("pyspark.java_gateway").launch_gateway(conf, popen_kwargs=piped)
    if (java := getattr(gateway, "proc", None)) is not None:
        threading.Thread(target=_pass_on, args=(java.stderr,), daemon=True).start()
    pyspark().SparkContext(conf=conf, gateway=gateway)
    session: SparkSession = pyspark("pyspark.sql").SparkSession.builder.getOrCreate()
    return session


def _pass_on(errors: BinaryIO) -> None:
    """Let through what Java and users' functions say, but for what Java says each time."""
    for line in errors:
        if not line.startswith(b"WARNING: Using incubator modules"):
            os.write(2, line)


def _is_embedded(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.sql.adaptive.enabled": "false",
    }
    if _is_embedded(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _fitting(running: SparkSession, master: str | None) -> SparkSession:
    found = running.sparkContext.master
    if master not in (None, found):
        raise FlowError(
            f"this process has a Spark session on {found!r} already, so it can't have one on "
            f"{master!r}; stop that one first, or leave the master out"
        )
    return running


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    remedy = "type: apt-get install openjdk-17-jre-headless"
    if java is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise FlowError(f"Spark needs Java {OLDEST_JAVA}, and there is none {where}; {remedy}")
    command = [java, "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr  # noqa: S603
    found = _VERSION.search(said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = found[1] if found else "of an unknown version"
        raise FlowError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is {version}; {remedy}, or let "
            "JAVA_HOME name a newer one"
        )


def _check_reachable(master: str) -> None:
    """Ask before Spark does: it would try for a minute."""
    if not _MASTER.match(master):
        raise FlowError(
            f"{master!r} is no master of Spark's; write local[*], spark://HOST:PORT, yarn "
            "or k8s://HOST:PORT"
        )
    addresses = re.findall(r"([^/,:]+):(\d+)", master) if master.startswith("spark://") else []
    faults = []
    for host, port in addresses:
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            faults.append(str(error))
        else:
            return
    if faults:
        raise FlowError(
            f"the Spark master {master} can't be reached ({faults[0]}); start it, or name another "
            f"with --master; {EMBEDDED} needs none"
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
