"""Whether hooks are called for each job that failed for good, where workers' apps have any.

Either its own run has called them and said so, or the write that ended it names the one job that
does. Each of these is there in the end, and what has completed has really called them. Nothing is
owed before a worker with hooks is stored, since nobody knows of any then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shunter.model.identity import hook_name, is_reserved
from shunter.model.job import Job, Status
from shunter.testing.simulation.judge import Judge

RULE = "hooks are called for each final failure"


class HookJudge:
    """Sees what is written and which hooks were called; without `has_hooks` there are none."""

    def __init__(
        self,
        judge: Judge,
        stored: Callable[[str], Job | None],
        are_known: Callable[[], bool],
        *,
        has_hooks: bool,
    ) -> None:
        self._judge, self._stored, self._are_known = judge, stored, are_known
        self._has_hooks = has_hooks
        self._called: Counter[str] = Counter()
        self._owing: set[str] = set()

    def called(self, job_id: str) -> None:
        """A child calls the hooks for a job."""
        self._called[job_id] += 1

    def ended(self, job: Job) -> None:
        """A job has been written as ended."""
        is_owed = self._has_hooks and job.status is Status.FAILED and not is_reserved(job.type)
        if job.error is not None and job.error.is_told:
            is_owed = False
            self._check_called(job.id)
        if is_owed and job.hook_job is None and not self._are_known():
            return
        if job.hook_job != (hook_name(job.id) if is_owed else None):
            self._judge.accuse(RULE, f"for {job.id} it is up to {job.hook_job}", job.id)
        if is_owed:
            self._owing.add(job.id)

    def is_made(self, job: Job) -> bool:
        """True if the job that calls the hooks for this one is stored, if there is to be any."""
        return job.hook_job is None or self._stored(job.hook_job) is not None

    def check_all(self, jobs: list[Job]) -> None:
        """Look at all jobs in the end."""
        made = {job.id for job in jobs if is_reserved(job.id)}
        if made != {hook_name(job_id) for job_id in self._owing}:
            self._judge.accuse(RULE, f"{self._owing} owe calls, and there are {made}")
        for job_id in self._owing:
            call = self._stored(hook_name(job_id))
            if call is not None and call.status is Status.COMPLETED:
                self._check_called(job_id)

    def _check_called(self, job_id: str) -> None:
        if not self._called[job_id]:
            self._judge.accuse(RULE, f"those of {job_id} were never called", job_id)
