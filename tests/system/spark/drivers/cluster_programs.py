"""The programs and flow files that tests run on a cluster of Spark's, as users would write them."""

from __future__ import annotations

SHIPPED_FLOW = """
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines
import beside

class Last:
    def __init__(self, key):
        self.key, self.total = key, 0

    def on_event(self, number):
        self.total += number
        return [self.key, self.total, *beside.where_code_comes_from(), where()]

def where():
    return type(__spec__.loader).__name__

flow = Flow("shipped")
numbers = flow.source(range(200), workers=1).map(beside.doubled)
numbers.key_by(beside.key_of).stateful(Last).sink(WriteJsonLines(beside.OUT), workers=1)
"""

BESIDE_FLOW = """
import os, time
import shunter

def doubled(number):
    if PAUSE:
        with open(BUSY, "w") as file:
            file.write(os.getcwd())
        time.sleep(PAUSE)
    return number * 2

def key_of(number):
    return number % 5

def where_code_comes_from():
    return shunter.__file__, type(__spec__.loader).__name__
"""

STREAM_THEN_ENGINES = """
import sys
from pathlib import Path
from shunter.flow.runners.checkpoint_folder import Checkpoints
from shunter.flow.loader import load
from shunter.flow.runners.engines.runner import run_on_engines
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.stream.run import stream_on_spark

master, bare_python = sys.argv[1:3]
streamed, hosted = map(Path, sys.argv[3:])
session = spark_session(master)
stream_on_spark(load(f"{streamed}/counting.py"), session, checkpoints=streamed / "checkpoints")
session.sparkContext.pythonExec = bare_python
file = f"{hosted}/counting.py"
kept = Checkpoints(hosted / "checkpoints")
run_on_engines(load(file), file, hosts=master, checkpoints=kept, every=0.3)
"""

FAR = """
import os, sys, time
from shunter import Flow
from shunter.cli.flows import app
from shunter.errors import FlowError
from shunter.flow import spark_session
from shunter.flow.sinks import WriteParquet
from shunter.flow.sources import JsonLines

master, source, target, unseen, BUSY = sys.argv[1:]

class Running:
    def __init__(self, key):
        self.key, self.total = key, 0

    def on_event(self, row):
        time.sleep(0.001)
        if row["n"] == 1_000:
            with open(BUSY, "w") as file:
                file.write(os.getcwd())
        self.total += row["n"]
        return {"n": row["n"], "key": self.key, "total": self.total}

def run(target, **options):
    flow = Flow("far")
    rows = flow.source(JsonLines(source))
    rows.key_by("key").stateful(Running, **options).sink(WriteParquet(target), **options)
    flow.run(on=session)

session = spark_session(master, options={"spark.task.maxFailures": "8"})
try:
    run(unseen, workers=1)  # Spark tries a task that is refused again and again
except FlowError as error:
    print("refused:", error, flush=True)
run(target)
app(["run", "flow.py", "--master", master, "--json"], standalone_mode=False)
"""

BESIDE_SUBMITTED = """
def doubled(order):
    return 2 * order.euros
"""

SUBMITTED = """
import json
import os
from dataclasses import dataclass

import msgspec
from pyspark.sql import SparkSession

import ordered
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
        self.euros += ordered.doubled(order)
        return Total(self.shop, self.euros)


def order(number):
    return Order("north" if number % 2 else "south", number)


flow = Flow("orders")
orders = flow.source(range(10)).map(order)
totals = orders.key_by("shop").stateful(Totals).map(lambda total: [total.shop, total.euros])
totals.sink(WriteJsonLines(os.environ["ORDERS"]), workers=1)

if __name__ == "__main__":
    report = flow.run()
    context = SparkSession.getActiveSession().sparkContext
    print(json.dumps({"master": context.master, "name": context.appName, "nodes": report.nodes,
                      "conf": dict(context.getConf().getAll())}), flush=True)
"""

SHORT_OF_MEMORY = """
import json, os, signal, sys, time
from shunter import Flow
from shunter.errors import FlowError
from shunter.flow import DataFrameSource
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.runners.spark.session.spark_session import spark_session

session = spark_session(sys.argv[1], options={
    "spark.cores.max": "1", "spark.executor.memory": "512m", "spark.task.maxFailures": "60",
    "spark.executor.pyspark.memory": "3g",
})
context = session.sparkContext
store = context._jsc.sc().statusStore()

def large_strings(spark):
    return spark.range(1).selectExpr("repeat('x', cast(id + 1500000000 as int)) as text")

def hog(number):
    return len(bytearray(8 << 30)) if number == 50 else number

def killed(number):
    if number == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    return number

def attempt(source, function, **options):
    flow = Flow("short")
    flow.source(source).map(function).sink(WriteJsonLines("out.jsonl"), workers=1)
    try:
        flow.run(on=session, **options)
    except FlowError as error:
        stage = store.lastStageAttempt(last_stage())
        tries = store.taskList(stage.stageId(), stage.attemptId(), 100)
        first = tries.apply(0)
        died = (first.launchTime().getTime() + first.duration().get()) / 1000
        return {
            "said": str(error), "seconds": time.time() - died,
            "failed": stage.numFailedTasks(),
            "active": len(context.statusTracker().getActiveJobsIds()),
        }

def last_stage():
    jobs = store.jobsList(None)
    stages = max(map(jobs.apply, range(jobs.size())), key=lambda job: job.jobId()).stageIds()
    return max(map(stages.apply, range(stages.size())))

told = {"java": attempt(DataFrameSource(large_strings), str)}
executors = store.executorList(False)
told["java"]["executors"] = [
    str(each.removeReason())
    for each in map(executors.apply, range(executors.size())) if not each.isActive()
]
told["python"] = attempt(range(100), hog)
if os.environ.get("SHUNTER_LONG"):
    told["killed"] = attempt(range(100), killed, stream=True, checkpoints="checkpoints")
print(json.dumps(told))
"""
