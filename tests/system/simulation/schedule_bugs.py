"""Bugs that only schedules show."""

from __future__ import annotations

from typing import Any

import pytest
from bug_list import bug
from msgspec.structs import replace

from shunter.dispatch import tick_sweep
from shunter.dispatch.tick_sweep import TickSweep, _Move
from shunter.model import schedule as schedules
from shunter.model.record import RecordKind
from shunter.store.memory import MemoryStore


@bug("jobs of ticks have no unique key")
def tick_key_dropped(patch: pytest.MonkeyPatch) -> None:
    tick_job = tick_sweep.tick_job

    def keyless(schedule: Any, tick: float, *, job_id: str) -> Any:
        return replace(tick_job(schedule, tick, job_id=job_id), unique_key=None)

    patch.setattr(tick_sweep, "tick_job", keyless)


@bug("a schedule moves on before the jobs of its ticks are committed")
def row_moved_first(patch: pytest.MonkeyPatch) -> None:
    carry_out = TickSweep._carry_out

    def hasty(self: Any, decisions: Any) -> None:
        carry_out(self, decisions)
        self._moves += [_Move(it.name, it.revision, it.decision.schedule) for it in decisions]

    patch.setattr(TickSweep, "_carry_out", hasty)


@bug("schedules are written without comparing revisions")
def rows_not_compared(patch: pytest.MonkeyPatch) -> None:
    swap = MemoryStore._swap_record

    def overwrite(self: Any, record: Any) -> bool:
        if record.kind is RecordKind.SCHEDULE and (
            known := self._records.get((record.kind, record.name))
        ):
            record = replace(record, revision=known.revision + 1)
        return swap(self, record)

    patch.setattr(MemoryStore, "_swap_record", overwrite)


@bug("a tick does not look whether an earlier job has ended")
def overlap_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    async def all_of_them(self: Any, found: Any) -> set[str]:
        return {job_id for schedule in found for job_id in schedule.unfinished}

    patch.setattr(TickSweep, "_ended", all_of_them)


@bug("jobs are not listed as unfinished")
def unfinished_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tick_sweep, "inserted", lambda decision, job_ids, *, error="": decision.schedule)


@bug("a tick that waits for a job is forgotten")
def waiting_tick_forgotten(patch: pytest.MonkeyPatch) -> None:
    decide = tick_sweep.decide

    def forget(schedule: Any, **about: Any) -> Any:
        decision = decide(schedule, **about)
        moved = decision.schedule
        return replace(decision, schedule=replace(moved, waiting=None) if moved.waiting else moved)

    patch.setattr(tick_sweep, "decide", forget)


@bug("ticks are made up for, however old they are")
def no_tick_too_old(patch: pytest.MonkeyPatch) -> None:
    come = schedules._come

    def all_come(schedule: Any, *, now: float, most: int) -> Any:
        terms = replace(schedule.terms, catch_up=1e9)
        return come(replace(schedule, terms=terms), now=now, most=most)

    patch.setattr(schedules, "_come", all_come)


@bug("ticks of an outage are not made up for")
def outage_forgotten(patch: pytest.MonkeyPatch) -> None:
    come = schedules._come

    def few_come(schedule: Any, *, now: float, most: int) -> Any:
        terms = replace(schedule.terms, catch_up=0.0)
        return come(replace(schedule, terms=terms), now=now, most=most)

    patch.setattr(schedules, "_come", few_come)


@bug("a dispatcher that starts does not read the schedules that are there")
def schedules_not_read(patch: pytest.MonkeyPatch) -> None:
    async def nothing_there(self: Any) -> None:
        return

    patch.setattr(TickSweep, "_read_all", nothing_there)
