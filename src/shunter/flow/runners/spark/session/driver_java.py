"""The Java process that drives Spark: whether it is there, what it says, and what it died of.

What is known of it hangs on PySpark's gateway to it, of which a process has one.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.java_noise import without_noise
from shunter.flow.runners.spark.session.kinds import pyspark

OLDEST_JAVA = 17
JAVA_SECONDS = 20.0
REAP_SECONDS = 2.0
STOP_SECONDS = 5.0
OUT_OF_MEMORY = 3
"""The exit code of a Java that was told to end when it has no memory left."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_OURS = "shunter_java"


class DriverJava:
    """A Java process that was started here. `memory` is its spark.driver.memory."""

    def __init__(self, process: subprocess.Popen[bytes], memory: str) -> None:
        self._process, self._memory = process, memory

    def fault(self) -> FlowError | None:
        """Say what it died of; None if it lives."""
        code = self._process.poll()
        if code is None:
            return None
        if code == OUT_OF_MEMORY:
            return FlowError(
                f"Spark's driver (Java) ran out of memory: spark.driver.memory is {self._memory}; "
                f"give it more, {_REMEDY}. Nothing was published"
            )
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return FlowError(
                "Spark's driver (Java) was killed, as a system does that has no memory left: "
                f"spark.driver.memory is {self._memory}; free some memory, or change that, "
                f"{_REMEDY}. Nothing was published"
            )
        return FlowError(
            f"Spark's driver (Java) has ended in the middle of the run, with exit code {code}; run "
            "it again. Nothing was published"
        )

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, but no longer than this."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return


_REMEDY = (
    "with --conf spark.driver.memory=4g, flow.run(conf={'spark.driver.memory': '4g'}) or in "
    "spark-defaults.conf"
)


class JavaOutput:
    """What a Java process writes: passed on if it is worth reading, and the end of it kept."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=5)
        self.pipes = {name: os.pipe() for name in ("stdout", "stderr")}

    @property
    def ends(self) -> dict[str, int]:
        """The ends of the pipes that a process is started with."""
        return {name: written for name, (_, written) in self.pipes.items()}

    def pass_on(self) -> None:
        """Begin to pass on; what Java itself says to its standard output goes to ours."""
        for number, (read, written) in enumerate(self.pipes.values(), start=1):
            os.close(written)
            threading.Thread(target=self._copy, args=(read, number), daemon=True).start()

    @property
    def last_words(self) -> str:
        return "; ".join(self._last)

    def _copy(self, source: int, target: int) -> None:
        with open(source, "rb") as lines:
            for line in without_noise(self._noted(lines)):
                os.write(target, line)

    def _noted(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            if text := line.decode(errors="replace").strip():
                self._last.append(text)
            yield line


def attach(gateway: Any, memory: str) -> None:
    """Take note of the process behind a gateway, if it was started here."""
    if (process := getattr(gateway, "proc", None)) is not None:
        setattr(gateway, _OURS, DriverJava(process, memory))


@contextmanager
def outlived_java() -> Iterator[None]:
    """Let a FlowError say what the driver's Java died of, whatever came of that in here.

    PySpark forgets the dead one then, so that this process can start another.
    """
    root = logging.getLogger()
    root.addFilter(_is_no_lost_call)
    try:
        yield
    except Exception as error:
        fault = _fault(error)
        if fault is None:
            raise
        forget_java()
        raise fault from error
    finally:
        root.removeFilter(_is_no_lost_call)


def _is_no_lost_call(record: logging.LogRecord) -> bool:
    """False for what Py4J logs, with pages of trace, of each call to a Java that is no more."""
    return record.msg != "Exception while sending command."


def _fault(error: BaseException) -> FlowError | None:
    gateway = pyspark().SparkContext._gateway
    if gateway is None:
        return None
    ours = _ours(gateway)
    is_cut_off = any(map(_is_cut, _causes(error)))
    if ours is not None:
        if is_cut_off:
            ours.wait(REAP_SECONDS)
        return ours.fault()
    if is_cut_off and not _answers(gateway):
        return FlowError(
            "Spark's driver (Java), which somebody else started, is gone; if its log says "
            "OutOfMemoryError, give it more: spark-submit --driver-memory 4g, or "
            "spark.driver.memory in spark-defaults.conf. Nothing was published"
        )
    return None


def _ours(gateway: Any) -> DriverJava | None:
    """Return what was noted; a gateway has an attribute of any name."""
    found = getattr(gateway, _OURS, None)
    return found if isinstance(found, DriverJava) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_cut(error: BaseException) -> bool:
    return isinstance(error, OSError | EOFError) or type(error).__name__ == "Py4JNetworkError"


def _answers(gateway: Any) -> bool:
    try:
        gateway.jvm.System.nanoTime()
    except Exception:
        return False
    return True


def quiet_at_death(context: Any) -> None:
    """Keep PySpark's server of accumulators from printing that Java is gone."""
    server = context._accumulatorServer
    if server is None:
        return
    complain = server.handle_error

    def handle(*request: Any) -> None:
        ours = _ours(context._gateway)
        if ours is not None:
            ours.wait(REAP_SECONDS)
        if ours is None or ours.fault() is None:
            complain(*request)

    server.handle_error = handle


def is_dead() -> bool:
    """True if this process has a session whose Java is no more."""
    ours = _ours(pyspark().SparkContext._gateway)
    return ours is not None and ours.fault() is not None


def forget_java() -> None:
    """Have PySpark forget a session whose Java is no more."""
    context, sessions = pyspark().SparkContext, pyspark("pyspark.sql").SparkSession
    context._gateway = context._jvm = context._active_spark_context = None
    sessions._instantiatedSession = None


def end_java(gateway: Any) -> None:
    """End the process behind a gateway, if it was started here."""
    java = getattr(gateway, "proc", None)
    if java is None:
        return
    gateway.shutdown()
    java.stdin.close()
    try:
        java.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


def check_java() -> None:
    """Raise a FlowError if there is no Java here that Spark can run on."""
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
