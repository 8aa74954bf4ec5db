"""Watches places under limits: none stays free while a job waits for it and could be started.

A limit that is never exceeded could be kept by starting nothing. So while one dispatcher and one
worker with room are undisturbed, the next job of a key below its limit starts within a bound.
"""

from __future__ import annotations

from collections import Counter

from shunter.model.job import Job, Status
from shunter.model.queue_order import UNDER_WAY
from shunter.testing.simulation.judge import Judge
from shunter.testing.simulation.scenario import Scenario
from shunter.testing.simulation.truth import Truth

MOST_IDLE_SECONDS = 11.0
"""A lease lapses after 10 s, a claim after 5 s; a dispatcher looks every second."""

LaneName = tuple[str, str]
"""The type of jobs, and the tenant."""


class IdlePlaces:
    """One for a run."""

    def __init__(self, scenario: Scenario, truth: Truth, judge: Judge) -> None:
        self._scenario, self._truth, self._judge = scenario, truth, judge
        self._since: dict[LaneName, tuple[int, float]] = {}

    def look(self, now: float) -> None:
        """Look who waits beside free places, and for how long."""
        limit, jobs = self._scenario.limit, self._truth.jobs()
        if not limit:
            return
        running = Counter(_lane(job) for job in jobs if job.status in UNDER_WAY)
        totals = Counter(job.type for job in jobs if job.status in UNDER_WAY)
        starts: Counter[LaneName] = Counter()
        for job in jobs:
            starts[_lane(job)] += job.attempt
        waiting = {
            _lane(job) for job in jobs if job.status is Status.QUEUED and job.wait_until is None
        }
        is_able = self._is_able(jobs, now)
        idle = {
            lane
            for lane in waiting
            if is_able and running[lane] < limit and totals[lane[0]] < 2 * limit
        }
        for lane in self._since.keys() - idle:
            del self._since[lane]
        for lane in sorted(idle):
            begun, since = self._since.get(lane, (-1, now))
            if begun != starts[lane]:
                self._since[lane] = starts[lane], now
            elif now - since > MOST_IDLE_SECONDS:
                detail = f"of {lane} only {running[lane]} of {limit} run for {now - since:.1f} s"
                self._judge.accuse("free places are taken", detail)

    def _is_able(self, jobs: list[Job], now: float) -> bool:
        """True if there is a dispatcher and a worker with room that no fault disturbs."""
        scenario = self._scenario
        disturbed = {
            it.target for it in scenario.faults if it.at <= now <= it.at + max(it.seconds, 1.0)
        }
        held = Counter(
            self._judge.name_of(job.execution.worker_id)
            for job in jobs
            if job.status is Status.IN_PROGRESS
        )
        has_room = any(
            held[it.name] < it.slots for it in scenario.workers if it.name not in disturbed
        )
        return has_room and not disturbed.issuperset(scenario.dispatchers)


def _lane(job: Job) -> LaneName:
    return job.type, job.keys.get("tenant", "")
