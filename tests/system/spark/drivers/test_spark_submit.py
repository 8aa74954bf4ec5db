"""A flow file under a real `spark-submit`: its master, its settings, and code of `__main__`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.testing.spark_cluster import LocalSparkCluster, spark_home

pytestmark = pytest.mark.timeout(300)

BESIDE = """
def doubled(order):
    return 2 * order.euros
"""

PROGRAM = """
import json
from dataclasses import dataclass

import msgspec
from pyspark.sql import SparkSession

import beside
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines


@dataclass
class Order:
    shop: str
    euros: int


class Total(msgspec.Struct):
    shop: str
    euros: int


class Totals:
    def __init__(self, shop):
        self.shop, self.euros = shop, 0

    def on_event(self, order):
        self.euros += beside.doubled(order)
        return Total(self.shop, self.euros)


def order(number):
    return Order("north" if number % 2 else "south", number)


flow = Flow("orders")
orders = flow.source(range(10)).map(order)
totals = orders.key_by("shop").stateful(Totals).map(lambda total: [total.shop, total.euros])
totals.sink(WriteJsonLines("out.jsonl"), workers=1)

if __name__ == "__main__":
    report = flow.run()
    context = SparkSession.getActiveSession().sparkContext
    print(json.dumps({"master": context.master, "name": context.appName, "nodes": report.nodes,
                      "conf": dict(context.getConf().getAll())}))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSparkCluster]:
    with LocalSparkCluster(tmp_path_factory.mktemp("cluster"), workers=1) as started:
        yield started


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python that has libraries, and neither Shunter nor the program."""
    packages = sysconfig.get_paths()["purelib"]
    script = tmp_path / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    script.chmod(0o755)
    return script


def submitted(folder: Path, *words: str, python: Path | str = sys.executable) -> dict[str, Any]:
    environ = {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [str(spark_home() / "bin" / "spark-submit"), *words, "program.py"],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_totals(folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 10
    assert dict(rows) == {"south": 2 * (0 + 2 + 4 + 6 + 8), "north": 2 * (1 + 3 + 5 + 7 + 9)}


def test_the_master_and_the_settings_of_spark_submit_count(program: Path) -> None:
    said = submitted(
        program,
        "--master", "local[3]", "--name", "mine", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.sql.shuffle.partitions=7", "--conf", "spark.sql.adaptive.enabled=false",
    )  # fmt: skip

    assert_totals(program)
    assert (said["master"], said["name"], said["nodes"]) == ("local[3]", "mine", 3)
    assert said["conf"]["spark.sql.shuffle.partitions"] == "7"
    assert said["conf"]["spark.sql.adaptive.enabled"] == "false"
    assert said["conf"]["spark.ui.enabled"] == "false"


def test_executors_of_a_cluster_get_the_code_of_the_program(
    program: Path, cluster: LocalSparkCluster, bare_python: Path
) -> None:
    said = submitted(
        program, "--master", cluster.url, "--conf", "spark.ui.enabled=false", python=bare_python
    )

    assert_totals(program)
    assert said["master"] == cluster.url
