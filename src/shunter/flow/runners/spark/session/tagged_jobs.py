"""Spark's jobs under a tag: how far they are and how to end them, here and on a Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from shunter.flow.runners.port import TasksDone
from shunter.flow.runners.spark.session.kinds import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        tracker = self._context.statusTracker()
        jobs = self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag)
        infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
        numbers = {number for info in infos for number in info.stageIds}
        stages = [stage for n in numbers if (stage := tracker.getStageInfo(n)) is not None]
        return TasksDone(
            sum(stage.numCompletedTasks for stage in stages),
            sum(stage.numActiveTasks for stage in stages),
            sum(stage.numTasks for stage in stages),
        )


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

    def _hear(self, stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        told = list(stages or ())
        finished = sum(stage.num_completed_tasks for stage in told)
        total = sum(stage.num_tasks for stage in told)
        self._told = TasksDone(finished, 0 if done else inflight_tasks, total)
