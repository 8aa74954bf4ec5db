"""Whose settings of Spark count, which masters there are, and what its pages say of memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.masters import check_master, is_on_loopback
from shunter.flow.runners.spark.session.memory_faults import memory_fault
from shunter.flow.runners.spark.session.spark_conf import (
    conf_folder,
    file_defaults,
    java_options,
    our_defaults,
)

WRITTEN = r"""
# a comment
! another
spark.master            yarn
spark.a=1
spark.b : two words
spark.c = x=y
spark.d one \
        two
spark.empty
"""


def test_defaults_are_read_as_java_reads_properties(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(WRITTEN)

    assert file_defaults(tmp_path) == {
        "spark.master": "yarn",
        "spark.a": "1",
        "spark.b": "two words",
        "spark.c": "x=y",
        "spark.d": "one two",
    }


def test_there_need_not_be_any(tmp_path: Path) -> None:
    assert file_defaults(tmp_path) == {}


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, "/lib/pyspark/conf"),
        ({"SPARK_HOME": "/opt/spark"}, "/opt/spark/conf"),
        ({"SPARK_HOME": "/opt/spark", "SPARK_CONF_DIR": "/etc/spark"}, "/etc/spark"),
    ],
)
def test_the_folder_is_where_spark_looks(environ: dict[str, str], folder: str) -> None:
    assert conf_folder(environ, Path("/lib/pyspark")) == Path(folder)


def test_only_a_spark_on_loopback_gets_addresses_and_ports_from_us() -> None:
    assert our_defaults("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert our_defaults("spark://127.0.0.1:7077")["spark.ui.port"] == "0"
    for master in ("yarn", "k8s://https://h:443", "spark://10.1.0.2:7077"):
        assert not {"spark.driver.host", "spark.ui.port", "spark.sql.shuffle.partitions"} & set(
            our_defaults(master)
        )


def test_nobody_is_told_to_go_without_ui_or_adaptive_execution() -> None:
    assert not {"spark.ui.enabled", "spark.sql.adaptive.enabled"} & set(our_defaults("local[*]"))


def test_a_users_logging_is_left_alone(tmp_path: Path) -> None:
    assert "log4j2" in java_options(tmp_path)
    (tmp_path / "log4j2.properties").touch()
    assert java_options(tmp_path) == "-XX:+ExitOnOutOfMemoryError"


@pytest.mark.parametrize(
    "master",
    [
        "local", "local[*]", "local[2, 4]", "local-cluster[2,1,1024]", "yarn",
        "spark://h:7077", "spark://a:7077,b:7077", "k8s://https://h:6443", "platform://anything",
    ],
)  # fmt: skip
def test_masters(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "here", "yarn-client", "spark://nowhere", "spark:7077", "mesos://h:1", "local2"]
)
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(FlowError, match="is no master of Spark's; write local"):
        check_master(master)


def test_which_masters_are_on_this_machine() -> None:
    here = ["local[*]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077", "spark://localhost:1"]
    assert all(map(is_on_loopback, here))
    assert not any(map(is_on_loopback, ["yarn", "k8s://https://h:1", "spark://10.1.0.2:7077"]))


LOST = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        (f"{LOST}Command exited with code 137", r"executor .* \(exit code 137\).*memoryOverhead"),
        (f"{LOST}Command exited with code 52", r"executor .* \(exit code 52\).*executor.memory"),
        (
            f"{LOST}Container killed by YARN for exceeding physical memory limits. 1.5 GB used",
            r"\(Container killed by YARN for exceeding physical memory limits\)",
        ),
        (f"{LOST}\nThe executor with id 3 exited with exit code 137(SIGKILL, OOM)", "code 137"),
        (
            "java.lang.OutOfMemoryError: Java heap space\n\tat x",
            r"\(Java heap space\).*local\[\*\]",
        ),
        ("SparkException: Python worker exited unexpectedly (crashed)", "killed or has crashed"),
        ("[STREAM_FAILED] Query [id = 1] terminated with exception:  SQLSTATE: X", "was killed"),
        ("null\n=== Streaming Query ===\nIdentifier: orders", "was killed"),
    ],
)
def test_a_want_of_memory_is_called_so(pages: str, said: str) -> None:
    fault = memory_fault(pages)

    assert fault is not None
    assert re.search(said, str(fault))


@pytest.mark.parametrize("pages", ["", "ZeroDivisionError", f"{LOST}Command exited with code 1"])
def test_other_faults_are_not(pages: str) -> None:
    assert memory_fault(pages) is None
