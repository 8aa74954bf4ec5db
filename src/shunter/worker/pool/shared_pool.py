"""The pool of an app whose jobs share children: which child does what, and who pays for whom.

Each child has a lane of its own. Where a job goes is decided in `child_loads.py`, what it takes to
stop one in `escalation.py`; this performs. A child that has to be killed to end one job costs only
that one: its neighbours are given back, and what it had not begun goes to another child.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice
from time import monotonic

from shunter.app import App
from shunter.model.final_failure import with_hooks
from shunter.model.report import Held, Report
from shunter.wire.messages import Assignment
from shunter.worker.pool.child_channel import Word
from shunter.worker.pool.child_loads import ChildLoads
from shunter.worker.pool.escalation import Push, StopStep, is_held_up, step_of
from shunter.worker.pool.frames import Frame, Mark, read_blocked_at
from shunter.worker.pool.job_window import waited_too_long
from shunter.worker.pool.process_pool import (
    GIVE_BACK_AFTER_SECONDS,
    TICK_SECONDS,
    PoolSettings,
    ProcessPool,
)
from shunter.worker.pool.slot import BlockedLoop, Slot
from shunter.worker.run_seal import RunSeal

LEAD_SECONDS = 0.1
"""So much work is sent ahead, as the next job takes so long to come from a busy dispatcher: one
turn that is under way, and one that takes the report."""

AGES_LOOKED_AT = 8
_RESULT = int(Mark.RESULT)
_ENDS = {int(mark) for mark in (Mark.RESULT, Mark.RESULT_WITH_LOG, Mark.FAILED, Mark.PARKED)}


def new_pool(
    app_spec: str, app: App, settings: PoolSettings, *, on_output: Callable[[], None]
) -> ProcessPool:
    """Make the pool that the app's handlers want."""
    shares = any(handler.concurrency > 1 for handler in app.handlers())
    return (SharedPool if shares else ProcessPool)(app_spec, app, settings, on_output=on_output)


class SharedPool(ProcessPool):
    """Does jobs, several in a child where their types allow it."""

    is_shared = True

    def __init__(
        self, app_spec: str, app: App, settings: PoolSettings, *, on_output: Callable[[], None]
    ) -> None:
        super().__init__(app_spec, app, settings, on_output=on_output)
        self._most = {it.type: it.concurrency for it in with_hooks(app.handlers())}
        self._loads: ChildLoads[Slot] = ChildLoads(self._most)
        self._begun: dict[int, float] = {}  # of runs that have a time-out
        self._said: dict[int, tuple[Word, float | None]] = {}  # and since when it is unheard
        self._returned: dict[str, list[Held]] = {}
        self._watched: set[Slot] = set()

    # ---- what the worker asks

    @property
    def window(self) -> int:
        loads, offered = self._loads, self._supervisor.offered
        coming = max(0, offered - self._supervisor.alive) * loads.in_idle
        self._window.slots = len(loads.assigned) + loads.room() + coming
        if loads.is_blocked:
            return self.load
        return self._window.slots + self._window.ahead(LEAD_SECONDS)

    @property
    def slots(self) -> int:
        return self._supervisor.offered * self._loads.in_idle

    def give(self, jobs: Sequence[Assignment], *, begun: Container[str] | None = None) -> None:
        now = monotonic()
        for job in jobs:
            self._loads.wait(self._runs.add(job, now=now, begun=begun), job.type)
        self._pump()

    def take_returned(self) -> dict[str, list[Held]]:
        returned, self._returned = self._returned, {}
        return returned

    def cancel(self, jobs: Sequence[Held]) -> None:
        now = monotonic()
        for key in self._loads.withdraw(self._runs.cancel(jobs)):
            self._runs.drop_unstarted(key, now=now)
        self._push(now)
        self._announce_output()

    def recall(self) -> list[Held]:
        keys = self._loads.withdraw(self._loads.waiting())
        for slot in self._supervisor.slots:
            unread = slot.lane.drain() if slot.lane is not None else []
            for key in unread:
                self._loads.ended(key)
            keys += unread
        return self._runs.forget([key for key in keys if key in self._runs.open])

    def overdue(self, now: float) -> list[Held]:
        waiting = ((key, self._runs.open[key][1]) for key in self._loads.waiting())
        keys = waited_too_long(waiting, now=now, give_back_after=GIVE_BACK_AFTER_SECONDS)
        return self._runs.forget(self._loads.withdraw(keys)) if keys else []

    # ---- to the children

    def _drop_jobs(self, reason: str) -> list[Held]:
        self._loads.withdraw(self._loads.waiting())
        for slot in self._supervisor.slots:
            if self._loads.closed(slot):
                slot.dismiss(reason)
        self._begun.clear()
        self._said.clear()
        return self._runs.forget(list(self._runs.open))

    def _end_of_jobs(self) -> None:
        super()._end_of_jobs()
        for slot in self._supervisor.slots:
            self._end_lane(slot)

    def _running(self) -> dict[int, Slot]:
        return dict(self._loads.assigned)

    def _pump(self) -> None:
        if self._is_stopping:
            return
        touched: set[Slot] = set()
        for key, slot in self._loads.place(now=monotonic()):
            assert slot.lane is not None
            slot.lane.put(key, self._runs.open[key][0])
            slot.given += 1
            touched.add(slot)
        for slot in touched:
            self._pump_lane(slot)
            if slot.given >= self._settings.max_jobs_per_child:
                self._shut(slot)

    def _pump_lane(self, slot: Slot) -> None:
        assert slot.lane is not None
        must_watch = slot.lane.pump()
        if must_watch and slot not in self._watched:
            self._watched.add(slot)
            self._loop.add_writer(slot.lane.entry_fd, self._pump_lane, slot)
        elif not must_watch:
            self._unwatch(slot)

    def _unwatch(self, slot: Slot) -> None:
        if slot in self._watched and slot.lane is not None:
            self._watched.discard(slot)
            self._loop.remove_writer(slot.lane.entry_fd)

    def _shut(self, slot: Slot) -> None:
        """Give a child nothing more; it leaves when it has nothing left."""
        self._loads.shut(slot)
        if not self._loads.keys_in(slot):
            self._end_lane(slot)

    def _end_lane(self, slot: Slot) -> None:
        self._unwatch(slot)
        if slot.lane is not None:
            slot.lane.end()

    # ---- from the children

    def _take_frames(self, slot: Slot, frames: Iterator[Frame]) -> None:
        runs, seconds = 0, 0.0
        open_runs, stopping, reports = self._runs.open, self._runs.stopping, self._runs.reports
        for mark, key, begun, took, body in frames:
            if mark == _RESULT and key not in stopping:
                if entry := open_runs.pop(key, None):
                    job, given_at = entry
                    waited = begun - given_at
                    reports.append(
                        Report(job.job_id, job.attempt, body, None, "", None, waited, took)
                    )
            else:
                self._take_rare_frame(slot, mark, key, body, (begun, took))
            if mark in _ENDS:
                self._loads.ended(key)
                self._begun.pop(key, None)
                runs += 1
                seconds += took
        self._window.ran(runs, seconds)
        if slot in self._loads and self._loads.is_shut(slot) and not self._loads.keys_in(slot):
            self._end_lane(slot)
        self._pump()
        self._announce_output()

    def _take_rare_frame(
        self, slot: Slot, mark: int, key: int, body: bytes, lasted: tuple[float, float]
    ) -> None:
        match mark:
            case Mark.STARTED:
                self._begun[key] = lasted[0]
            case Mark.BLOCKED:
                slot.blocked = BlockedLoop(key, lasted[0], read_blocked_at(body))
            case Mark.GOES_ON if slot.blocked is not None:
                self._runs.forgive(slot.blocked.key)
                slot.blocked = None
            case Mark.HEARD:
                if key in self._said:
                    self._said[key] = self._said[key][0], None
            case Mark.FULL:
                self._shut(slot)
            case _:
                super()._take_rare_frame(slot, mark, key, body, lasted)
                if mark == Mark.READY:
                    self._loads.opened(slot)
                elif mark == Mark.RETIRED:
                    self._wait_again(self._loads.closed(slot))

    def _wait_again(self, keys: Sequence[int]) -> None:
        for key in reversed(keys):
            if key in self._runs.open:
                self._loads.wait(key, self._runs.open[key][0].type, is_first=True)

    # ---- by the clock

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        now = monotonic()
        self._ticks += 1
        open_runs = self._runs.open
        oldest = islice(self._loads.assigned, AGES_LOOKED_AT)
        self._window.running(now - open_runs[key][1] for key in oldest if key in open_runs)
        begun = [(key, at) for key, at in self._begun.items() if key in open_runs]
        for slot in self._supervisor.slots:
            if slot.run_state.key in open_runs:
                begun.append((slot.run_state.key, slot.run_state.started))
                if self._ticks % 2:
                    self._notice_progress(slot)
            if slot.blocked is not None:
                self._check_blocked(slot, slot.blocked, now)
        self._notice_logs(now)
        self._runs.expire(begun, now=now)
        self._push(now)
        self._flush_answers()
        self._supervisor.tick(now)
        self._pump()
        self._announce_output()

    def _check_blocked(self, slot: Slot, blocked: BlockedLoop, now: float) -> None:
        limit = self._settings.max_block
        if now - blocked.since < limit:
            return
        where = f"the event loop of its process for {limit:g} s at {blocked.at.place}"
        if blocked.key in self._runs.open:
            self._runs.blame(
                blocked.key,
                f"it blocked {where}; await there, or leave it to asyncio.to_thread",
            )
        else:
            slot.kill(f"no job, but something else, blocked {where}")

    def _push(self, now: float) -> None:
        if not self._runs.stopping:
            return
        assigned = self._loads.assigned
        reachable = [
            key
            for key in self._runs.stopping
            if key in assigned and self._is_reachable(key, assigned[key], now)
        ]
        for key, push in self._runs.pushes(reachable, now=now):
            slot = assigned[key]
            if slot.run_state.key == key:
                self._push_slot(slot, key, push)
            else:
                self._stop_shared(slot, key, push)

    def _is_reachable(self, key: int, slot: Slot, now: float) -> bool:
        """True if a push can be meant for this run: it has begun, as far as it matters."""
        if self._most.get(self._runs.open[key][0].type, 1) == 1:
            return slot.run_state.key == key
        said_at = self._said[key][1] if key in self._said else None
        unheard_for = None if said_at is None else now - said_at
        patience = self._settings.max_block
        return not is_held_up(key, _blocker(slot), unheard_for=unheard_for, patience=patience)

    def _stop_shared(self, slot: Slot, key: int, push: Push) -> None:
        match step_of(push, key, _blocker(slot)):
            case StopStep.WAIT:
                pass
            case StopStep.ASK:
                self._say(slot, key, Word.ASK)
            case StopStep.TELL:
                self._say(slot, key, Word.TELL)
            case StopStep.INTERRUPT:
                slot.run_state.ask_to_stop(key)
                slot.signal(signal.SIGTERM)
            case StopStep.KILL:
                slot.killed_for_key = slot.killed_for_key or key
                job_id = self._runs.open[key][0].job_id
                slot.kill(f"the process was killed to end job {job_id}")

    def _say(self, slot: Slot, key: int, word: Word) -> None:
        """Tell a child about a run, once; a word is never lost while the child lives."""
        last = self._said.get(key)
        if (last is None or last[0] < word) and slot.lane is not None:
            self._said[key] = word, monotonic()
            slot.lane.say(key, word)
            self._pump_lane(slot)

    # ---- deaths

    def _bury(self, slot: Slot, cause: str) -> None:
        """Settle the jobs that were in a child: begun or not, to blame or not."""
        self._unwatch(slot)
        unread = set(slot.lane.drain() if slot.lane is not None else ())
        keys = [key for key in self._loads.closed(slot) if key in self._runs.open]
        begun = [key for key in keys if key not in unread]
        for key in begun:
            if slot.killed_for_key in (0, key):
                self._lose(slot, key, cause, company=len(begun) - 1)
            else:
                reason = f"{cause}, with which it shared a process"
                self._returned.setdefault(reason, []).extend(self._runs.forget([key]))
        self._wait_again([key for key in keys if key in unread])
        self._pump()
        self._announce_output()

    def _lose(self, slot: Slot, key: int, cause: str, *, company: int) -> None:
        is_alone, stack = slot.run_state.key == key, ""
        log = ""
        if slot.blocked is not None and slot.blocked.key == key:
            stack, log = slot.blocked.at.stack, slot.blocked.at.log
        elif is_alone or not company:
            job = self._runs.open[key][0]
            log = RunSeal(self._app, job.job_id, job.type).log(slot.run_log.take())
        if company and key not in self._runs.stopping:
            cause = f"{cause}; {company} other jobs were in it"
        at = slot.run_state.started if is_alone else self._begun.pop(key, None)
        lasted = None if at is None else (at, monotonic() - at)
        if is_alone:
            self._notice_progress(slot)
        self._runs.die(key, cause, log, lasted=lasted, traceback=stack)

    def _announce_output(self) -> None:
        if self._said:
            self._said = {key: said for key, said in self._said.items() if key in self._runs.open}
        if self._returned:
            self._announce()
        super()._announce_output()


def _blocker(slot: Slot) -> int | None:
    return None if slot.blocked is None else slot.blocked.key
