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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.home import home_without_zip
from shunter.flow.runners.spark.session.java_noise import without_noise
from shunter.flow.runners.spark.session.kinds import (
    CONNECT_SECONDS,
    is_connect,
    is_embedded,
    is_local,
    pyspark,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED = "local[*]"
OLDEST_JAVA = 17
JAVA_SECONDS = 20.0
STOP_SECONDS = 5.0

_LOGGING = Path(__file__).with_name("log4j2.properties")
_MASTER = re.compile(r"local(\[.*\])?$|spark://[^/:]+:\d+|k8s://.|yarn$")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def spark_session(
    master: str | None = None,
    *,
    remote: str | None = None,
    name: str = "shunter",
    options: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session that this process has, or start one.

    `master` is what Spark calls so: local[*], where nothing is said, or spark://HOST:PORT.
    `remote` is a Spark Connect server in its place, sc://HOST:PORT.
    `options` are settings of Spark, which count only where the session is started.
    """
    if remote is not None:
        return _remote_session(remote, master)
    sql = pyspark("pyspark.sql")
    running: SparkSession | None = sql.SparkSession.getActiveSession()
    if running is not None and is_connect(running) and master is None:
        return running
    if running is not None and (is_connect(running) or running.sparkContext._jsc is not None):
        return _fitting(running, master)
    master = EMBEDDED if master is None else master
    _check_java()
    _check_reachable(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _is_on_loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.master": master, "spark.app.name": name, **_settings(master)}
    try:
        session: SparkSession = _started({**settings, **(options or {})})
    except Exception as error:
        raise FlowError(
            f"Spark does not start on {master!r}: {_first_line(error)}; check the master and the "
            "options, and 'shunter doctor' checks this machine"
        ) from error
    if not is_local(session):
        # Here `pyspark_shunter` is found when needed; executors elsewhere have to be given it.
        importlib.import_module("shunter.flow.runners.spark.history").register(session)
    return session


@contextmanager
def lent_session(master: str | None = None) -> Iterator[SparkSession]:
    """Lend a session for one run, in a process that may do others later, on other masters.

    Afterwards one on a cluster is stopped, for it holds cores there; one of this process is kept.
    """
    running: SparkSession | None = pyspark("pyspark.sql").SparkSession.getActiveSession()
    if running is not None and running.sparkContext.master != (master or EMBEDDED):
        stop_session(running)
    session = spark_session(master)
    try:
        yield session
    finally:
        if not is_local(session):
            stop_session(session)


def stop_session(session: SparkSession) -> None:
    """Stop a session and end its Java process, so that the next one may have other settings."""
    spark_context = pyspark().SparkContext
    gateway = spark_context._gateway
    session.stop()
    spark_context._gateway = spark_context._jvm = None
    if (java := getattr(gateway, "proc", None)) is not None:
        gateway.shutdown()
        java.stdin.close()
        try:
            java.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()


def _remote_session(remote: str, master: str | None) -> SparkSession:
    if master is not None:
        raise FlowError(
            f"there is a master, {master!r}, and a Spark Connect server, {remote}; name one of them"
        )
    from shunter.flow.runners.spark.session.connect import connect_session

    return connect_session(remote)


def _started(settings: Mapping[str, str]) -> SparkSession:
    conf = pyspark().SparkConf().setAll(list(settings.items()))
    installed = Path(pyspark().__file__).parent
    is_ours = is_embedded(settings["spark.master"])
    with home_without_zip(installed, settings) if is_ours else nullcontext():
        gateway = pyspark("pyspark.java_gateway").launch_gateway(
            conf, popen_kwargs={"stderr": subprocess.PIPE}
        )
    if (java := getattr(gateway, "proc", None)) is not None:
        threading.Thread(target=_pass_on, args=(java.stderr,), daemon=True).start()
    pyspark().SparkContext(conf=conf, gateway=gateway)
    session: SparkSession = pyspark("pyspark.sql").SparkSession.builder.getOrCreate()
    return session


def _pass_on(errors: BinaryIO) -> None:
    """Let through what is worth reading of what Java and users' functions say."""
    for line in without_noise(errors):
        os.write(2, line)


def _is_on_loopback(master: str) -> bool:
    return is_embedded(master) or re.match(r"spark://(127\.|localhost:)", master) is not None


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Rows between tasks are packed: ten thousand of them, as Spark has it, may be gigabytes.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 20),
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if _is_on_loopback(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _fitting(running: SparkSession, master: str | None) -> SparkSession:
    found = "a Spark Connect server" if is_connect(running) else running.sparkContext.master
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
    try:
        told = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, check=False, timeout=JAVA_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlowError(
            f"Spark needs Java {OLDEST_JAVA}, and {java} can't be run ({error}); {remedy}, or let "
            "JAVA_HOME name another one"
        ) from error
    found = _VERSION.search(told.stderr)
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
