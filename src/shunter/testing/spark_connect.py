"""A real Spark Connect server for tests, on loopback, from the PySpark package that is installed.

Blocking: made for fixtures, not for an event loop.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from shunter.testing.quick_java import BRIEF
from shunter.testing.servers import free_port, launch
from shunter.testing.spark import FOR_FEW_ROWS, WARM
from shunter.testing.spark_cluster import KEPT, SparkClusterFailed, spark_home

START_SECONDS = 90.0

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class LocalConnectServer:
    """One server with Spark in it, as local[2]. Its log is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        # The kernel ends the server with the thread that started it, so that is one which stays.
        self._parent = ThreadPoolExecutor(1, "Spark Connect's parent")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What `--remote` takes."""
        return f"sc://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            **FOR_FEW_ROWS,
            **WARM,
        }
        words = [str(spark_home() / "bin" / "spark-submit"), "--class", _SERVER]
        words += ["--master", "local[2]"]
        for name, value in settings.items():
            words += ["--conf", f"{name}={value}"]
        with open(self.log, "ab") as log:
            self._process = self._parent.submit(
                launch,
                words,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self._environ(),
                start_new_session=True,
            ).result()
        try:
            self._await()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        self._parent.shutdown()

    @property
    def log(self) -> Path:
        return self._folder / "connect.log"

    def _environ(self) -> dict[str, str]:
        environ = {key: os.environ[key] for key in KEPT if key in os.environ}
        return (
            {"JAVA_TOOL_OPTIONS": BRIEF}
            | environ
            | {
                "SPARK_HOME": str(spark_home()),
                "SPARK_CONF_DIR": str(self._folder / "none"),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(self._folder),
                "PYSPARK_PYTHON": sys.executable,
            }
        )

    def _await(self) -> None:
        assert self._process is not None, "started"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=1.0).close()
                return
            time.sleep(0.1)
        said = self.log.read_text()[-1000:]
        raise SparkClusterFailed(f"Spark Connect's server does not answer; its log ends: {said}")
