"""Who really ran what and when, whatever dispatchers and workers believe.

The children of simulated workers tell it of each start and end. It knows nothing of the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct


class Run(Struct):
    """One run of one job in one child process."""

    job_id: str
    attempt: int
    worker: str
    started: float
    ended: float | None = None
    how: str = ""
    is_excused: bool = False
    """Its worker was stopped as a whole meanwhile, so that nothing could end it."""
    is_dying: bool = False
    """It has been killed, and is not yet dead."""


class Witness:
    """All runs. `on_overlap` is told of a run that began while another was under way,
    `on_repetition` of one that had been before, `on_begin` of each, and the how manieth of its job
    it is.
    """

    def __init__(
        self,
        on_overlap: Callable[[Run, Run], None],
        on_repetition: Callable[[Run], None],
        tell: Callable[[str, str], None],
        on_begin: Callable[[Run, int], None] = lambda run, times: None,
        on_step_again: Callable[[Run, str], None] = lambda run, step: None,
    ) -> None:
        self._on_step_again = on_step_again
        self._kept: set[tuple[str, str]] = set()
        self.steps: Counter[tuple[str, str]] = Counter()
        self._tell = tell
        self._on_begin = on_begin
        self._times: Counter[str] = Counter()
        self._on_repetition = on_repetition
        self._begun: set[tuple[str, int]] = set()
        self.runs: list[Run] = []
        self._under_way: dict[str, list[Run]] = {}
        self._on_overlap = on_overlap

    def started(self, job_id: str, attempt: int, worker: str, *, now: float) -> Run:
        run = Run(job_id, attempt, worker, now)
        self.runs.append(run)
        self._tell(worker, f"begins {job_id}, attempt {attempt}")
        if (job_id, attempt) in self._begun:
            self._on_repetition(run)
        self._begun.add((job_id, attempt))
        self._times[job_id] += 1
        self._on_begin(run, self._times[job_id])
        others = self._under_way.setdefault(job_id, [])
        for other in others:
            if not other.is_excused:
                self._on_overlap(other, run)
        others.append(run)
        return run

    def ended(self, run: Run, how: str, *, now: float) -> None:
        if run.ended is None:
            run.ended, run.how = now, how
            self._tell(run.worker, f"ends {run.job_id}, attempt {run.attempt}: {how}")
            self._under_way[run.job_id].remove(run)

    def step_ran(self, run: Run, step: str) -> None:
        """A step had its effect; it must not have one after it was told as kept."""
        self.steps[run.job_id, step] += 1
        self._tell(run.worker, f"does {step} of {run.job_id}, attempt {run.attempt}")
        if (run.job_id, step) in self._kept and not run.is_excused and not run.is_dying:
            self._on_step_again(run, step)

    def step_kept(self, run: Run, step: str) -> None:
        """A run was told that its step is kept."""
        self._tell(run.worker, f"has kept {step} of {run.job_id}, attempt {run.attempt}")
        self._kept.add((run.job_id, step))

    def frozen(self, worker: str) -> None:
        """A worker is stopped as a whole: what it runs may overlap with other runs."""
        for runs in self._under_way.values():
            for run in runs:
                if run.worker == worker:
                    run.is_excused = True

    @property
    def is_busy(self) -> bool:
        return any(self._under_way.values())

    def under_way(self, job_id: str) -> list[Run]:
        return list(self._under_way.get(job_id, ()))

    def load_of(self, worker: str) -> int:
        """Return how many runs are under way on a worker."""
        return sum(run.worker == worker for runs in self._under_way.values() for run in runs)
