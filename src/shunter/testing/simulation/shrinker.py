"""Takes away from a failing scenario whatever it can fail without.

A scenario that breaks the same rule with less in it is the better story. Parts go in halves,
quarters and so on down to single ones (delta debugging); then what is left is made simpler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from shunter.testing.simulation.pool import Task
from shunter.testing.simulation.scenario import Fault, PlannedJob, Scenario
from shunter.testing.simulation.simulator import SimulationResult, simulate

T = TypeVar("T")

MAX_RUNS = 250


class _Shrinking:
    """Keeps the smallest scenario so far that fails alike."""

    def __init__(self, first: SimulationResult, max_runs: int) -> None:
        assert first.violation is not None
        self._rule = first.violation.rule
        self._left = max_runs
        self.best = first

    def accepts(self, candidate: Scenario) -> bool:
        if self._left <= 0 or candidate == self.best.scenario:
            return False
        self._left -= 1
        result = simulate(candidate)
        if result.violation is None or result.violation.rule != self._rule:
            return False
        self.best = result
        return True

    def drop(
        self,
        parts_of: Callable[[Scenario], tuple[T, ...]],
        with_parts: Callable[[Scenario, tuple[T, ...]], Scenario],
        *,
        at_least: int = 0,
    ) -> bool:
        """Take away as many parts as possible; True if some could go."""
        has_dropped = False
        size = len(parts_of(self.best.scenario))
        while size >= 1:
            start = 0
            while start < len(parts := parts_of(self.best.scenario)):
                fewer = (*parts[:start], *parts[start + size :])
                if len(fewer) >= at_least and self.accepts(with_parts(self.best.scenario, fewer)):
                    has_dropped = True
                else:
                    start += size
            size //= 2
        return has_dropped


def shrunk(first: SimulationResult, max_runs: int = MAX_RUNS) -> SimulationResult:
    """Return a run of a smaller scenario that breaks the same rule."""
    shrinking = _Shrinking(first, max_runs)
    is_smaller = True
    while is_smaller:
        is_smaller = shrinking.drop(lambda s: s.faults, lambda s, f: replace(s, faults=f))
        is_smaller |= shrinking.drop(lambda s: s.jobs, lambda s, j: replace(s, jobs=j), at_least=1)
        is_smaller |= shrinking.drop(lambda s: s.schedules, lambda s, p: replace(s, schedules=p))
        is_smaller |= shrinking.drop(
            lambda s: s.workers,
            lambda s, w: replace(s, workers=w, faults=_about(s, w)),
            at_least=1,
        )
        is_smaller |= _simplify(shrinking)
    return shrinking.best


def _about(scenario: Scenario, workers: tuple[object, ...]) -> tuple[Fault, ...]:
    """The faults that do not need the workers which are to go."""
    gone = {worker.name for worker in scenario.workers if worker not in workers}
    return tuple(f for f in scenario.faults if f.target not in gone and f.other not in gone)


def _simplify(shrinking: _Shrinking) -> bool:
    has_changed = False
    for index in range(len(shrinking.best.scenario.jobs)):
        for simpler in _simpler(shrinking.best.scenario.jobs[index]):
            jobs = list(shrinking.best.scenario.jobs)
            jobs[index] = simpler
            has_changed |= shrinking.accepts(replace(shrinking.best.scenario, jobs=tuple(jobs)))
    return shrinking.accepts(_without_idle(shrinking.best.scenario)) or has_changed


def _without_idle(scenario: Scenario) -> Scenario:
    """The same without clients and receivers that no job needs, and without their faults."""
    used = {name for job in scenario.jobs for name in (job.client, job.callback)}
    used |= {schedule.client for schedule in scenario.schedules}
    kept = {
        field: tuple(name for name in getattr(scenario, field) if name in used)
        for field in ("clients", "udp_clients", "receivers")
    }
    there = set(replace(scenario, **kept).names) | {""}
    faults = tuple(f for f in scenario.faults if {f.target, f.other} <= there)
    return replace(scenario, **kept, faults=faults)


def _simpler(job: PlannedJob) -> Iterator[PlannedJob]:
    if job.cancel_after is not None:
        yield replace(job, cancel_after=None)
    if job.delay is not None:
        yield replace(job, delay=None)
    if job.timeout is not None:
        yield replace(job, timeout=None)
    if job.callback:
        yield replace(job, callback="")
    plain = Task(seconds=job.task.seconds)
    if job.task != plain:
        yield replace(job, task=plain, retries=0)
