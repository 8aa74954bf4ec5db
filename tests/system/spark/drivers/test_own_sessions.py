"""Programs and notebooks with a session of their own, and Spark's own configuration.

Each is a process of its own, whose code comes by standard input: as in a notebook, its functions
are in no file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.testing.spark import FOR_FEW_ROWS, WARM, submit_arguments

pytestmark = pytest.mark.timeout(300)

NOTEBOOK = """
import inspect, json, threading
from dataclasses import dataclass
from pyspark.sql import SparkSession
from shunter import Flow
from shunter.flow.sinks import Collect

spark = (
    SparkSession.builder.master("local[2]").appName("mine")
    .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "3").getOrCreate()
)

@dataclass
class Number:
    value: int

FACTOR = 3

def tripled(number):
    return Number(FACTOR * number)

class Largest:
    def __init__(self, key):
        self.value = 0

    def on_event(self, number):
        self.value = max(self.value, number.value)
        return self.value

def numbers():
    found = []
    flow = Flow("numbers")
    tripling = flow.source(range(6)).map(tripled)
    tripling.key_by(lambda number: number.value % 2).stateful(Largest).sink(Collect(found))
    return flow, found

def has_source():
    try:
        inspect.getsource(tripled)
    except (OSError, TypeError):
        return False
    return True

said = {"source": has_source()}
flow, found = numbers()
flow.run(on=spark)
said["given"] = sorted(found)
flow, found = numbers()
flow.run()
said["active"] = sorted(found)
flow, found = numbers()
thread = threading.Thread(target=flow.run)
thread.start()
thread.join()
said["thread"] = sorted(found)
said["same"] = SparkSession.getActiveSession() is spark and spark.sparkContext.appName == "mine"
said["partitions"] = spark.conf.get("spark.sql.shuffle.partitions")

import msgspec

class Base(msgspec.Struct, frozen=True):
    number: int

class Event(Base, frozen=True, tag="e"):
    note: str = "-"
    def doubled(self):
        return Event(2 * self.number, "!")

@dataclass
class Pair:
    left: Event
    right: int = 0

decoder = msgspec.json.Decoder(int)
got = []
own = Flow("own")
events = own.source(["1", "2"]).map(lambda text: Event(decoder.decode(text)))
pairs = events.balanced().map(lambda e: Pair(e.doubled())).key_by(lambda p: p.left.number)
pairs.map(lambda pair: pair).sink(Collect(got))
own.run(on=spark)
said["pairs"] = sorted(map(str, got))
said["is_pair"] = all(type(each) is Pair for each in got)
print(json.dumps(said))
"""

CONFIGURED = """
import json
from shunter import Flow
from shunter.flow.sinks import Collect
from shunter.flow.runners.spark.session.spark_session import spark_session

flow = Flow("orders")
priced = flow.source(range(10), name="orders").map(lambda number: 2 * number, name="priced")
priced.filter(lambda number: number > 4, name="is_wanted").sink(Collect([]), name="wanted")
flow.run(conf={"spark.sql.session.timeZone": "UTC"})
context = spark_session().sparkContext
said = {"master": context.master, "url": context.uiWebUrl, "conf": dict(context.getConf().getAll())}
java = context._jsc.sc()

def shown(rows):
    return [rows.apply(number) for number in range(rows.size())]

def jobs():
    java.listenerBus().waitUntilEmpty()
    return [job.description().get() for job in shown(java.statusStore().jobsList(None))]

said["jobs"] = jobs()
queries = spark_session()._jsparkSession.sharedState().statusStore()
said["plans"] = [query.physicalPlanDescription() for query in shown(queries.executionsList())]

import tempfile
checkpoints = tempfile.mkdtemp()
seen = []
def look(_):
    seen.extend(query.name for query in spark_session().streams.active)
stream = Flow("following")
stream.source(range(10), name="orders").sink(Collect([]), name="all")
stream.run(stream=True, checkpoints=checkpoints, on_progress=look)
said["queries"] = sorted(set(seen))
said["batches"] = jobs()

print(json.dumps(said))
"""

DEFAULTS = r"""
# as Spark has it
spark.master                     local[1]
spark.sql.shuffle.partitions=9
spark.driver.extraJavaOptions : -Dmine=yes \
    -Dtoo=yes
"""


def told(program: str, folder: Path, **environ: str) -> dict[str, Any]:
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, **environ}
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=folder, env=environ,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "errors": done.stderr}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told(NOTEBOOK, tmp_path_factory.mktemp("notebook"))


def test_a_notebook_runs_flows_in_its_own_session(notebook: dict[str, Any]) -> None:
    assert notebook["source"] is False
    assert notebook["given"] == notebook["active"] == notebook["thread"] == [0, 3, 6, 9, 12, 15]
    assert notebook["same"] is True
    assert notebook["partitions"] == "3"


def test_what_a_program_defines_goes_by_value(notebook: dict[str, Any]) -> None:
    event = "Pair(left=Event(number={}, note='!'), right=0)"
    assert notebook["pairs"] == [event.format(2), event.format(4)]
    assert notebook["is_pair"] is True


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("configured")
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    settings = {**FOR_FEW_ROWS, **WARM, "spark.ui.enabled": "true", "spark.app.name": "named"}
    submit = submit_arguments(settings)
    return told(CONFIGURED, folder, SPARK_CONF_DIR=str(folder / "conf"), PYSPARK_SUBMIT_ARGS=submit)


def test_sparks_configuration_comes_before_ours(configured: dict[str, Any]) -> None:
    conf = configured["conf"]
    assert configured["master"] == "local[1]"
    assert conf["spark.sql.shuffle.partitions"] == "9"
    assert "-Dmine=yes -Dtoo=yes" in conf["spark.driver.extraJavaOptions"]
    assert conf["spark.app.name"] == "named"
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert conf["spark.sql.execution.arrow.pyspark.enabled"] == "true"


def test_the_ui_is_on_loopback_and_names_jobs_after_the_flow(configured: dict[str, Any]) -> None:
    assert configured["url"].startswith("http://127.0.0.1:")
    assert set(configured["jobs"]) == {"flow orders: orders → priced → is_wanted → wanted"}
    assert any("orders, priced, is_wanted" in plan for plan in configured["plans"])


def test_a_stream_is_called_as_its_flow_and_its_batches_are_numbered(
    configured: dict[str, Any],
) -> None:
    assert configured["queries"] == ["following"]
    assert "flow following, batch 0: orders → all" in configured["batches"]


def test_spark_is_quiet(configured: dict[str, Any]) -> None:
    assert configured["errors"] == ""
