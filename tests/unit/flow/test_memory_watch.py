"""Which deaths of tasks end a run at once, and which are left to Spark's next try."""

from __future__ import annotations

import pytest

from shunter.errors import FlowError
from shunter.flow.runners.port import TasksDone
from shunter.flow.runners.spark.session.faults import TaskFault, marked_faults
from shunter.flow.runners.spark.session.memory_watch import PATIENCE, MemoryWatch
from shunter.flow.runners.spark.session.tagged_jobs import FailedTask

LOST = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
GONE = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."


class Jobs:
    """Jobs whose tasks have failed in ways that a test says."""

    def __init__(self, *said: str, has_executor: bool = True) -> None:
        self.failed = [FailedTask(at, each, has_executor) for at, each in enumerate(said)]

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def cancel(self) -> None: ...

    def tasks(self) -> TasksDone:
        return TasksDone()

    def failed_tasks(self) -> list[FailedTask]:
        return self.failed


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (f"{LOST}Command exited with code 52", "spark.executor.memory"),
        (
            f"{LOST}Container killed by YARN for exceeding physical memory limits. 1.5 GB of 1 GB "
            "used. Consider boosting spark.executor.memoryOverhead.",
            "spark.executor.memoryOverhead",
        ),
        (
            f"{LOST}\nThe executor with id 3 exited with exit code 137(SIGKILL, possible container "
            "OOM).\n\nThe API gave the following container statuses:\n\n\t"
            "termination reason: OOMKilled",
            "spark.executor.memoryOverhead",
        ),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "spark.executor.memory"),
    ],
)
def test_a_death_that_only_memory_explains_ends_the_run_at_once(said: str, remedy: str) -> None:
    fault = MemoryWatch(Jobs("ZeroDivisionError", said)).fault(0.0)

    assert fault is not None
    assert remedy in str(fault)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "ZeroDivisionError: division by zero",
        "ValueError: no java.lang.OutOfMemoryError at all",
        f"{LOST}Command exited with code 1",
        f"{LOST}Command exited with code 137",
        f"{LOST}Container from a bad node: c1 on host: h. Exit status: 143",
        f"{LOST}Container c1 on host: h was preempted.",
        f"{LOST}worker lost: Not receiving heartbeat for 60 seconds",
        f"{LOST}The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM).",
        f"{LOST}Remote RPC client disassociated. Likely due to containers exceeding thresholds, or "
        "network issues. Check driver logs for WARN messages.",
    ],
)
def test_any_other_death_is_left_to_sparks_next_try(said: str) -> None:
    watch = MemoryWatch(Jobs(said))

    assert [watch.fault(now) for now in (0.0, 60.0)] == [None, None]


def test_a_python_process_that_dies_while_its_executor_lives_on_ends_the_run() -> None:
    watch = MemoryWatch(Jobs(GONE))

    assert watch.fault(10.0) is None
    assert watch.fault(10.0 + PATIENCE / 2) is None
    assert "was killed or has crashed" in str(watch.fault(10.0 + PATIENCE))


def test_a_python_process_that_dies_with_its_executor_does_not() -> None:
    jobs = Jobs(GONE)
    watch = MemoryWatch(jobs)

    assert watch.fault(0.0) is None
    jobs.failed = Jobs(GONE, has_executor=False).failed
    assert watch.fault(PATIENCE) is None


@pytest.mark.parametrize("error", [MemoryError(), ValueError("MemoryError")])
def test_a_memory_error_ends_the_run_with_the_users_line_and_the_remedy(error: Exception) -> None:
    fault_of_stage = FlowError("out of it", stage="double", place="flow.py:3")
    with pytest.raises(TaskFault) as raised, marked_faults("double"):
        raise fault_of_stage from error

    fault = MemoryWatch(Jobs(f"PythonException: Traceback\n{raised.value}\n")).fault(0.0)

    if isinstance(error, MemoryError):
        assert fault is not None
        assert (fault.stage, fault.place) == ("double", "flow.py:3")
        assert "flow.py:3: stage 'double': out of it" in str(fault)
        assert "spark.executor.pyspark.memory" in str(fault)
    else:
        assert fault is None


def test_a_session_that_cannot_be_asked_is_silence() -> None:
    class Ended(Jobs):
        def failed_tasks(self) -> list[FailedTask]:
            raise AttributeError("'NoneType' object has no attribute 'sc'")

    assert MemoryWatch(Ended()).fault(0.0) is None
