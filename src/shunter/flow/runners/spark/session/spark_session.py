"""The Spark session of this process: that of its user, or one started once, quiet and on loopback.

A session that is active is used as it is. A program under `spark-submit` has its master and its
settings from there. Else Java is started here, with Spark's own configuration before ours.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.driver_java import (
    JavaOutput,
    attach,
    check_java,
    end_java,
    forget_java,
    is_dead,
    quiet_at_death,
)
from shunter.flow.runners.spark.session.home import home_without_zip
from shunter.flow.runners.spark.session.kinds import is_connect, is_embedded, is_local, pyspark
from shunter.flow.runners.spark.session.masters import (
    EMBEDDED,
    check_master,
    check_reachable,
    has_our_python,
    is_on_loopback,
)
from shunter.flow.runners.spark.session.spark_conf import (
    LOCAL,
    conf_folder,
    file_defaults,
    java_options,
    our_defaults,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Names the Java that has started this Python, under `spark-submit`."""

_OPTIONS = "SPARK_SUBMIT_OPTS"


def spark_session(
    master: str | None = None,
    *,
    remote: str | None = None,
    name: str = "shunter",
    options: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session that this process has, or start one.

    `master` is what Spark calls so; it defaults to that of Spark's configuration, else local[*].
    `remote` is a Spark Connect server in its place, sc://HOST:PORT.
    `options` are settings of Spark, which count only where the session is started.
    """
    if remote is not None:
        return _remote_session(remote, master)
    if (running := running_session()) is not None:
        return _fitting(running, master)
    is_submitted = GATEWAY in os.environ
    start = _joined if is_submitted else _started
    session: SparkSession = start(master, name, dict(options or {}))
    if not is_local(session):
        # Here `pyspark_shunter` is found when needed; executors elsewhere have to be given it.
        importlib.import_module("shunter.flow.runners.spark.history").register(session)
    return session


def running_session() -> SparkSession | None:
    """Return the session that this process has; None if it has none, or its Java has died."""
    sessions = pyspark("pyspark.sql").SparkSession
    context = pyspark().SparkContext
    if is_dead():
        forget_java()
    running: SparkSession | None = sessions.getActiveSession()
    if running is None and context._active_spark_context is not None:
        running = sessions.builder.getOrCreate()  # it is active in another thread
    if running is None or is_connect(running) or running.sparkContext._jsc is not None:
        return running
    return None


def configured_master() -> str:
    """Return the master of a session that is told none: that of Spark's configuration, or here."""
    return str(_configured().get("spark.master") or EMBEDDED)


def has_local_default() -> bool:
    """True if a session that is told no master has its executors in this process."""
    running = running_session() if "pyspark.sql" in sys.modules else None
    if running is not None:
        return is_local(running)
    return GATEWAY not in os.environ and is_embedded(configured_master())


@contextmanager
def lent_session(master: str | None = None) -> Iterator[SparkSession]:
    """Lend a session for one run, in a process that may do others later, on other masters.

    Afterwards one on a cluster is stopped, for it holds cores there; one of this process is kept.
    """
    running = running_session()
    if running is not None and running.sparkContext.master != (master or configured_master()):
        stop_session(running)
    session = spark_session(master)
    try:
        yield session
    finally:
        if not is_dead() and not is_local(session):
            stop_session(session)


def stop_session(session: SparkSession) -> None:
    """Stop a session and end its Java process, so that the next one may have other settings."""
    spark_context = pyspark().SparkContext
    gateway = spark_context._gateway
    session.stop()
    spark_context._gateway = spark_context._jvm = None
    end_java(gateway)


def _remote_session(remote: str, master: str | None) -> SparkSession:
    if master is not None:
        raise FlowError(
            f"there is a master, {master!r}, and a Spark Connect server, {remote}; name one of them"
        )
    from shunter.flow.runners.spark.session.connect import connect_session

    return connect_session(remote)


def _fitting(running: SparkSession, master: str | None) -> SparkSession:
    found = "a Spark Connect server" if is_connect(running) else running.sparkContext.master
    if master not in (None, found):
        raise FlowError(
            f"this process has a Spark session on {found!r} already, so it can't have one on "
            f"{master!r}; stop that one first, or leave the master out"
        )
    return running


# ---- under spark-submit


def _joined(master: str | None, name: str, options: dict[str, str]) -> SparkSession:
    """Make the session of a program that was submitted: its settings come before ours."""
    gateway = pyspark("pyspark.java_gateway").launch_gateway()
    conf = pyspark().SparkConf(_jvm=gateway.jvm)
    submitted = conf.get("spark.master", EMBEDDED)
    if master not in (None, submitted):
        raise FlowError(
            f"this program was submitted to {submitted!r}, so it can't run on {master!r}; leave "
            "the master out, or say spark-submit --master"
        )
    for key, value in {"spark.app.name": name, **our_defaults(submitted)}.items():
        if not _is_page(key):
            conf.setIfMissing(key, value)
    conf.setAll(list(options.items()))
    return _made(conf, gateway)


def _is_page(key: str) -> bool:
    """True for where the UI listens: whoever submits a program looks for it at Spark's port."""
    return key.startswith("spark.ui.")


# ---- here


def _started(master: str | None, name: str, options: dict[str, str]) -> SparkSession:
    """Start Java and a session in it."""
    configured = _configured()
    if master is not None:
        check_master(master)
    master = master or options.get("spark.master") or configured.get("spark.master") or EMBEDDED
    check_java()
    check_reachable(master)
    ours = {"spark.app.name": name, **our_defaults(master)}
    settings = {key: value for key, value in ours.items() if key not in configured}
    settings |= {**options, "spark.master": master}
    known = {**configured, **settings}
    _set_environment(master, known)
    output, gateway = JavaOutput(), None
    try:
        gateway = _launched(settings, known, output)
        return _made(pyspark().SparkConf(_jvm=gateway.jvm), gateway)
    except Exception as error:
        said = _said(error) if gateway is not None else output.last_words or _said(error)
        forget_java()
        end_java(gateway)
        raise FlowError(
            f"Spark does not start on {master!r}: {said}; check the master and the options, and "
            "'shunter doctor' checks this machine"
        ) from error


def _configured() -> dict[str, str]:
    return file_defaults(_conf_folder())


def _conf_folder() -> Path:
    return conf_folder(os.environ, Path(pyspark().__file__).parent)


def _set_environment(master: str, settings: Mapping[str, str]) -> None:
    """Name the Python of tasks and, on loopback, the address, unless somebody did."""
    chosen = settings.get("spark.pyspark.python")
    if chosen or has_our_python(master):
        os.environ.setdefault("PYSPARK_PYTHON", chosen or sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL)


def _launched(settings: Mapping[str, str], known: Mapping[str, str], output: JavaOutput) -> Any:
    """Start Java, and return the way to it."""
    conf = pyspark().SparkConf(loadDefaults=False).setAll(list(settings.items()))
    installed = Path(pyspark().__file__).parent
    is_ours = is_embedded(known["spark.master"])
    with home_without_zip(installed, known) if is_ours else nullcontext(), _java_options():
        try:
            gateway = pyspark("pyspark.java_gateway").launch_gateway(conf, dict(output.ends))
        finally:
            output.pass_on()
    attach(gateway, known.get("spark.driver.memory", "1g"))
    return gateway


@contextmanager
def _java_options() -> Iterator[None]:
    """Have Java started with our options before the user's, of which the last ones count."""
    theirs = os.environ.get(_OPTIONS)
    os.environ[_OPTIONS] = " ".join(filter(None, [java_options(_conf_folder()), theirs]))
    try:
        yield
    finally:
        del os.environ[_OPTIONS]
        if theirs is not None:
            os.environ[_OPTIONS] = theirs


def _made(conf: Any, gateway: Any) -> SparkSession:
    quiet_at_death(pyspark().SparkContext(conf=conf, gateway=gateway))
    session: SparkSession = pyspark("pyspark.sql").SparkSession.builder.getOrCreate()
    return session


def _said(error: Exception) -> str:
    """Return the line of an error that says what is wrong; Py4J's first one never does."""
    lines = [line.removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    is_py4j = len(lines) > 1 and lines[0].startswith("An error occurred while calling")
    return lines[is_py4j] if lines else type(error).__name__
