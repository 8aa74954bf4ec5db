"""Spark's jobs under a tag: how far they are and how to end them, here and on a Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from shunter.flow.runners.port import TasksDone
from shunter.flow.runners.spark.session.kinds import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_FAILURES = 20
"""Of how many failed tasks of a stage it is asked what they said; the newest ones."""


class FailedTask(NamedTuple):
    """One try of a task that failed. `has_executor` is false if its executor is gone too."""

    id: int
    said: str
    has_executor: bool


class TaggedJobs(Protocol):
    """The jobs that a thread starts between `begin` and `end`."""

    def begin(self) -> None:
        """Tag the jobs that this thread starts from now on."""

    def end(self) -> None:
        """Tag no more of them."""

    def cancel(self) -> None:
        """Have those that run end; may be called by any thread."""

    def tasks(self) -> TasksDone:
        """Tell how far they are; may be asked by any thread."""

    def failed_tasks(self) -> list[FailedTask]:
        """Return the failed tries of tasks that Spark tries again; none if that is not told."""


def tagged_jobs(session: SparkSession, tag: str) -> TaggedJobs:
    """Return the jobs of a session that will have this tag."""
    return (_ConnectJobs if is_connect(session) else _ClassicJobs)(session, tag)


class _ClassicJobs:
    """Jobs of a session whose driver is in this process."""

    def __init__(self, session: SparkSession, tag: str) -> None:
        self._context, self._tag = session.sparkContext, tag

    def begin(self) -> None:
        self._context.addJobTag(self._tag)

    def end(self) -> None:
        self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        self._context.cancelJobsWithTag(self._tag)

    def tasks(self) -> TasksDone:
        stages = self._stages(self._ids())
        return TasksDone(
            sum(stage.numCompletedTasks for stage in stages),
            sum(stage.numActiveTasks for stage in stages),
            sum(stage.numTasks for stage in stages),
        )

    def failed_tasks(self) -> list[FailedTask]:
        running = set(self._context.statusTracker().getActiveJobsIds())
        return [
            task
            for stage in (self._stages(running & self._ids()) if running else ())
            if stage.numFailedTasks
            for task in self._failed_in(stage)
        ]

    def _ids(self) -> set[int]:
        return set(self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag))

    def _stages(self, jobs: set[int]) -> list[Any]:
        tracker = self._context.statusTracker()
        infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
        numbers = {number for info in infos for number in info.stageIds}
        return [stage for n in numbers if (stage := tracker.getStageInfo(n)) is not None]

    def _failed_in(self, stage: Any) -> Iterator[FailedTask]:
        jvm: Any = self._context._jvm
        api = jvm.org.apache.spark.status.api.v1
        wanted = jvm.java.util.ArrayList()
        wanted.add(api.TaskStatus.FAILED)
        store = self._context._jsc.sc().statusStore()
        first = max(0, stage.numFailedTasks - MOST_FAILURES)
        found = store.taskList(
            stage.stageId, stage.currentAttemptId, first, MOST_FAILURES, api.TaskSorting.ID, wanted
        )
        for at in range(found.size()):
            task = found.apply(at)
            said = str(task.errorMessage().get()) if task.errorMessage().isDefined() else ""
            is_there = bool(store.executorSummary(task.executorId()).isActive())
            yield FailedTask(int(task.taskId()), said, is_there)


class _ConnectJobs:
    """Jobs on a Spark Connect server, which tells by itself how far they are."""

    def __init__(self, session: SparkSession, tag: str) -> None:
        self._session, self._tag = session, tag
        self._told = TasksDone()

    def begin(self) -> None:
        self._session.addTag(self._tag)
        self._session.registerProgressHandler(self._hear)  # type: ignore[arg-type]

    def end(self) -> None:
        self._session.removeProgressHandler(self._hear)  # type: ignore[arg-type]
        self._session.removeTag(self._tag)

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def tasks(self) -> TasksDone:
        return self._told

    def failed_tasks(self) -> list[FailedTask]:
        """A server tells nothing of tasks that it tries again."""
        return []

    def _hear(self, stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        told = list(stages or ())
        finished = sum(stage.num_completed_tasks for stage in told)
        total = sum(stage.num_tasks for stage in told)
        self._told = TasksDone(finished, 0 if done else inflight_tasks, total)
