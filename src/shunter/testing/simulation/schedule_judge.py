"""What must hold of schedules: each tick is one job, or is left out as the rules have it.

It looks at jobs and rows as they are written, and goes by the spec (docs/spec/schedules.md), not
by how dispatchers decide. Where clocks have been set wrong it allows for as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from shunter.model.job import Job
from shunter.model.schedule import ON_TIME_SECONDS, Overlap, Schedule
from shunter.model.timing import next_tick, offset, ticks_between
from shunter.testing.simulation.judge import EARLY_SECONDS, Judge
from shunter.testing.simulation.processes import EPOCH
from shunter.testing.simulation.scenario import PlannedSchedule
from shunter.testing.simulation.truth import Truth

INSERT_SECONDS = 15.0
"""How long after it was decided on a tick may become a job: the store may stall meanwhile."""

MOST_TICKS = 1000

ONE_JOB = "each tick is one job"


class _Life(Struct):
    """A job of a schedule: which tick it is, and when it was there."""

    job_id: str
    tick: float
    began: float
    ended: float | None = None
    is_to_stop: bool = False


class ScheduleJudge:
    """One for a run."""

    def __init__(
        self,
        plans: Sequence[PlannedSchedule],
        judge: Judge,
        now: Callable[[], float],
        truth: Truth,
    ) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._judge, self._now, self._truth = judge, now, truth
        self._lives: dict[str, dict[float, _Life]] = {plan.name: {} for plan in plans}

    # ---- what has become of a schedule

    def is_known(self, plan: PlannedSchedule) -> bool:
        return self._truth.schedule(plan.name) is not None

    def is_paused(self, plan: PlannedSchedule) -> bool:
        row = self._truth.schedule(plan.name)
        return row is not None and row.is_paused

    def is_caught_up(self, plan: PlannedSchedule, since: float) -> bool:
        """True if its ticks until then are decided on, and none waits without a reason."""
        row = self._truth.schedule(plan.name)
        if row is None or row.is_paused:
            return row is not None
        has_come = row.next is not None and row.next - EPOCH > since
        waits = row.waiting is not None and row.waiting - EPOCH <= since
        return has_come and (not waits or bool(self._alive(plan.name)))

    # ---- jobs

    def job_written(self, before: Job | None, after: Job) -> None:
        """Look at one write of one job."""
        plan = self._plans.get(after.type)
        if plan is None:
            return
        lives, tick = self._lives[plan.name], after.scheduled
        if before is None:
            if tick is None or tick in lives or next_tick(plan.timing, tick - 0.001) != tick:
                known = lives[tick].job_id if tick in lives else "no other"
                self._accuse(ONE_JOB, f"{after.id} is of the tick {_at(tick)}, {known} is, too")
                return
            self._check_new(plan, tick, after.id)
            lives[tick] = _Life(after.id, tick, self._now())
        if tick in lives:
            lives[tick].is_to_stop = after.cancel_requested
            if after.status.is_final and lives[tick].ended is None:
                lives[tick].ended = self._now()

    def _check_new(self, plan: PlannedSchedule, tick: float, job_id: str) -> None:
        """A tick becomes a job: at its time, and while no other is under way if none may be."""
        late, slack = self._now() - _due(plan, tick), self._judge.clocks_differ
        if -late > EARLY_SECONDS + slack:
            self._accuse("no tick before its time", f"{job_id} is {-late:.1f} s too early")
        if late > max(plan.catch_up, ON_TIME_SECONDS) + INSERT_SECONDS + slack:
            self._accuse("old ticks are left out", f"{job_id} is {late:.1f} s late")
        others = self._alive(plan.name)
        if others and plan.overlap in (Overlap.SKIP, Overlap.ONE):
            detail = f"{job_id} is made while {others[0].job_id} has not ended ({plan.overlap})"
            self._accuse("jobs overlap only where they may", detail)

    # ---- rows

    def row_written(self, before: Schedule | None, after: Schedule) -> None:
        """Look at one write of one schedule: all ticks that it passes must be accounted for."""
        plan = self._plans[after.name]
        if before is None or before.is_paused or after.is_paused:
            return
        if before.next is None or after.next is None or after.next < before.next:
            self._accuse("schedules move on", f"{plan.name} goes back to {_at(after.next)}")
            return
        passed = ticks_between(plan.timing, before.next, after.next, most=MOST_TICKS)
        if before.waiting is not None:
            passed.insert(0, before.waiting)
        for tick in passed:
            if not self._is_accounted_for(plan, tick, passed, after):
                detail = f"{plan.name} moves on from {_at(tick)}, which is none ({plan.overlap})"
                self._accuse(ONE_JOB, detail)
        if passed and plan.overlap is Overlap.CANCEL:
            self._check_cancelled(plan, passed[-1])

    def _is_accounted_for(
        self, plan: PlannedSchedule, tick: float, passed: Sequence[float], after: Schedule
    ) -> bool:
        if tick in self._lives[plan.name] or tick == after.waiting:
            return True
        oldest = max(plan.catch_up, ON_TIME_SECONDS) - self._judge.clocks_differ - EARLY_SECONDS
        if self._now() - _due(plan, tick) > oldest:
            return True
        made = [it for it in passed if it in self._lives[plan.name]]
        match plan.overlap:
            case Overlap.SKIP:
                return bool(made and made[0] < tick) or self._was_busy(plan, tick)
            case Overlap.ONE:
                return after.waiting is not None
            case Overlap.CANCEL:
                return bool(made and made[-1] > tick)
            case _:
                return False

    def _was_busy(self, plan: PlannedSchedule, tick: float) -> bool:
        """True if a job of the schedule was under way when the tick came, or later."""
        came = _due(plan, tick) - self._judge.clocks_differ - EARLY_SECONDS
        return any(it.ended is None or it.ended >= came for it in self._lives[plan.name].values())

    def _check_cancelled(self, plan: PlannedSchedule, tick: float) -> None:
        for life in self._alive(plan.name):
            if life.tick < tick and not life.is_to_stop:
                detail = f"{plan.name} moves on, and nobody stops {life.job_id}"
                self._accuse("jobs overlap only where they may", detail)

    def _alive(self, name: str) -> list[_Life]:
        return [it for it in self._lives[name].values() if it.ended is None]

    def _accuse(self, rule: str, detail: str) -> None:
        self._judge.accuse(rule, detail)


def moved(before: Schedule | None, after: Schedule) -> str:
    """Say what was written."""
    if before is None:
        return f"stores schedule {after.name}, next at {_at(after.next)}"
    if after.is_paused and not before.is_paused:
        return f"pauses schedule {after.name}"
    if (before.next, before.waiting) == (after.next, after.waiting):
        return ""
    waits = f", {_at(after.waiting)} waits" if after.waiting is not None else ""
    return f"moves schedule {after.name} on to {_at(after.next)}{waits}"


def _due(plan: PlannedSchedule, tick: float) -> float:
    """Return when a tick comes, in virtual seconds."""
    return tick + offset(plan.name, tick, plan.jitter) - EPOCH


def _at(tick: float | None) -> str:
    return "no tick" if tick is None else f"{tick - EPOCH:.1f} s"
