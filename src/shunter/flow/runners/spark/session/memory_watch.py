"""Sees the first task of a run that memory has ended, while Spark still tries it again.

A task tells how it failed: by Java's own error, by how its executor ended, or by Python's. Only
what is memory for certain counts; Spark tries again after any other death, as of a host.
"""

from __future__ import annotations

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.faults import fault_in
from shunter.flow.runners.spark.session.memory_faults import (
    PYTHON_REMEDY,
    certain_memory_fault,
    python_process_fault,
)
from shunter.flow.runners.spark.session.tagged_jobs import TaggedJobs

PATIENCE = 3.0
"""How long Spark may take to hear that an executor has died with its Python process."""


class MemoryWatch:
    """Asks how tasks of tagged jobs have failed; to be asked now and then."""

    def __init__(self, jobs: TaggedJobs) -> None:
        self._jobs = jobs
        self._bereft: dict[int, float] = {}

    def fault(self, now: float) -> FlowError | None:
        """Return an error with what to set, if memory has ended a task of jobs that still run."""
        try:
            failed = self._jobs.failed_tasks()
        except Exception:
            return None  # a session that has ended or died fails the run itself
        for task in failed:
            if (fault := certain_memory_fault(task.said) or _memory_error(task.said)) is not None:
                return fault
        for task in failed:
            fault = python_process_fault(task.said) if task.has_executor else None
            if fault is not None and now - self._bereft.setdefault(task.id, now) >= PATIENCE:
                return fault
        return None


def _memory_error(said: str) -> FlowError | None:
    """Return what a user's function raised, if that is a MemoryError."""
    fault = fault_in(said)
    return fault if fault is not None and PYTHON_REMEDY in str(fault) else None
