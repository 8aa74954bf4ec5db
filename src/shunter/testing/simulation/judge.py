"""What must hold in every run, checked as things happen. The first thing that does not is kept.

Each rule has its place in docs/spec/jobs.md. The judge sees what is written to the store, what
children really did, and what clients were told; it never asks dispatchers or workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.model.job import Effects, Job, Status, When
from shunter.model.lifecycle import TRANSITIONS, Event
from shunter.model.queue_order import UNDER_WAY
from shunter.model.uniqueness import NamedKey, named_key
from shunter.model.worker import UDP_PREFIX
from shunter.testing.simulation.pool import Answered
from shunter.testing.simulation.processes import EPOCH
from shunter.testing.simulation.witness import Run
from shunter.wire.messages import Outcome
from shunter.wire.udp.job_names import calculator_of

HEARD_SECONDS = 5.0
MAX_LOSSES = 5
NOT_THERE = ("does not know of it", "came back without it", "so it does not have it")
"""How losses are explained by workers that don't have the run."""
CONFIRM_SECONDS = 5.0
"""For so long a task over UDP waits to be confirmed, before it goes to another calculator."""
EARLY_SECONDS = 0.1
"""How much too early a job may start, besides what the clocks differ."""


class Violation(Struct, frozen=True):
    """What did not hold, when, and for which job."""

    rule: str
    at: float
    detail: str
    job_id: str = ""


class Judge:
    """Keeps the first violation. `stored` returns what the store has of a job."""

    def __init__(
        self,
        now: Callable[[], float],
        stored: Callable[[str], Job | None],
        under_way: Callable[[str], list[Run]],
        tell: Callable[[str, str], None],
    ) -> None:
        self.violation: Violation | None = None
        self.covered: Counter[tuple[Status, Event]] = Counter()
        self.worker_names: dict[str, str] = {}
        self.hosts: dict[str, str] = {}
        """Which process has a numeric address."""
        self.has_no_lease: Callable[[str], bool] = lambda worker: False
        self.last_drop: Callable[[str], float] = lambda process: -1e9
        """When a packet of a process was last lost."""
        self.accepted: dict[str, float] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        """By job, whom it waits for."""
        self.limit = 0
        self.most_places = 0
        """How many jobs of one key were ever under way."""
        self._places: Counter[tuple[str, str | None]] = Counter()
        self.clocks_differ = 0.0
        """By how much clocks have been set wrong so far, all together."""
        self._now, self._stored, self._under_way, self._tell = now, stored, under_way, tell
        self._beats: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._keys: dict[NamedKey, str] = {}
        self._starts: dict[tuple[str, int], float] = {}

    def repeated_step(self, run: Run, step: str) -> None:
        """A step had its effect again after its result was told as kept."""
        detail = f"{step} of {run.job_id} was done again by attempt {run.attempt}"
        self.accuse("a kept step never runs again", detail, run.job_id)

    def accuse(self, rule: str, detail: str, job_id: str = "") -> None:
        if self.violation is None:
            self.violation = Violation(rule, self._now(), detail, job_id)
            self._tell("judge", f"VIOLATION of “{rule}”: {detail}")

    def name_of(self, worker_id: str | None) -> str:
        """Return which process a worker is."""
        if worker_id is not None and worker_id.startswith(UDP_PREFIX):
            return self.hosts[calculator_of(worker_id)[0]]
        return self.worker_names.get(worker_id or "", "nobody")

    # ---- the store

    def beat_stored(self, worker_id: str, heard: float) -> None:
        """Note a heartbeat, and when the one who stored it had heard it, by its clock.

        A worker counts from when it sent it, so whoever takes its jobs over may go by that.
        """
        now = self._now()
        heard_at = min(now, heard - EPOCH + self.clocks_differ)
        self._beats[worker_id] = now
        self._heard[worker_id] = max(self._heard.get(worker_id, 0.0), heard_at)

    def stored_beat(self, worker_id: str) -> float:
        """Return when a heartbeat of this worker was last stored."""
        return self._beats.get(worker_id, -1.0)

    def written(self, before: Job | None, after: Job, writer: str) -> None:
        """Look at one write of one job."""
        events = _events(before, after)
        if events is None:
            assert before is not None
            rule = "a job has one end" if before.status.is_final else "only listed transitions"
            detail = f"{after.id} went from {before.status.word} to {after.status.word}"
            self.accuse(rule, detail, after.id)
            return
        self._tell(writer, _sentence(before, after, events))
        status = Status.QUEUED if before is None else before.status
        for event in events:
            self.covered[status, event] += 1
            status = TRANSITIONS[status, event]
        if Event.STARTED in events:
            self._starts[after.id, after.attempt] = self._now()
        self._check_numbers(before, after, events)
        self._check_key(before, after)
        self._check_limits(before, after, events)
        if after.id in self.parents and Event.STARTED in events:
            self._check_parents(after)
        if self.limit:
            self._check_places(before, after)
        if Event.COMPLETED in events:
            self._check_result(after)
        if before is not None and {Event.LOST, Event.EXHAUSTED, Event.ABANDONED} & set(events):
            self._check_blame(before, after)

    def _check_numbers(self, before: Job | None, after: Job, events: list[Event]) -> None:
        attempt, revision = (0, -1) if before is None else (before.attempt, before.revision)
        if after.attempt != attempt + (Event.STARTED in events):
            detail = f"{after.id} went from attempt {attempt} to {after.attempt}"
            self.accuse("each start raises the attempt", detail, after.id)
        if before is not None and after.revision != revision + 1:
            detail = f"{after.id} went from revision {revision} to {after.revision}"
            self.accuse("each write raises the revision", detail, after.id)

    def _check_key(self, before: Job | None, after: Job) -> None:
        if before is not None and after.unique_key is None and named_key(before) is not None:
            del self._keys[before.namespace, before.unique_key or ""]
        if before is None and (key := named_key(after)) is not None:
            holder = self._keys.setdefault(key, after.id)
            if holder != after.id:
                detail = f"{holder} and {after.id} have the key {after.unique_key!r}"
                self.accuse("a unique key belongs to one job", detail, after.id)

    def _check_limits(self, before: Job | None, after: Job, events: list[Event]) -> None:
        if after.losses > MAX_LOSSES:
            self.accuse("losses are bounded", f"{after.id} was lost {after.losses} times", after.id)
        if Event.RETRIED in events and after.failures > (after.retry.limit if after.retry else 0):
            detail = f"{after.id} is tried again after {after.failures} failures"
            self.accuse("retries are bounded", detail, after.id)
        if Event.STARTED in events and after.not_before is not None:
            early = after.not_before - EPOCH - self._now()
            if early > EARLY_SECONDS + self.clocks_differ:
                detail = f"{after.id} is started {early:.1f} s before its time"
                self.accuse("no job starts before its time", detail, after.id)

    def _check_parents(self, after: Job) -> None:
        """A dependent starts when its parents have ended as it wants them to."""
        parents = [self._stored(name) for name in self.parents[after.id]]
        statuses = [None if parent is None else parent.status for parent in parents]
        have_ended = all(status is not None and status.is_final for status in statuses)
        are_ok = all(status is Status.COMPLETED for status in statuses)
        is_bad = Status.FAILED in statuses or Status.CANCELLED in statuses
        may_start = {When.ALL_OK: are_ok, When.ALL_DONE: have_ended, When.ANY_FAILED: is_bad}
        if not may_start[after.when or When.ALL_OK]:
            words = ", ".join("unknown" if it is None else it.word for it in statuses)
            detail = f"{after.id} (when {after.when}) is started; its parents are {words}"
            self.accuse("no child before its parents", detail, after.id)

    def _check_places(self, before: Job | None, after: Job) -> None:
        """No more jobs of a key, and of a type, are under way than may be."""
        for job, step in ((before, -1), (after, 1)):
            if job is not None and job.status in UNDER_WAY:
                self._places[job.type, job.keys.get("tenant", "")] += step
                self._places[job.type, None] += step
        tenant = after.keys.get("tenant", "")
        for key, most in (((after.type, tenant), self.limit), ((after.type, None), 2 * self.limit)):
            if self._places[key] > most:
                detail = f"with {after.id} there are {self._places[key]} of {key}, over {most}"
                self.accuse("limits hold", detail, after.id)
        self.most_places = max(self.most_places, self._places[after.type, tenant])

    def _check_result(self, job: Job) -> None:
        answer = msgspec.msgpack.decode(job.result or b"", type=Answered)
        holder = self.name_of(job.execution.worker_id)
        if (answer.job_id, answer.attempt, answer.worker) != (job.id, job.attempt, holder):
            detail = (
                f"{job.id}, attempt {job.attempt} on {holder}, has the result of "
                f"{answer.job_id}, attempt {answer.attempt} on {answer.worker}"
            )
            self.accuse("a result is that of the current run", detail, job.id)

    def _check_blame(self, before: Job, after: Job) -> None:
        """A loss must be one: its worker silent, or the run not there."""
        worker_id = before.execution.worker_id or ""
        reason = after.history[-1].message
        if "lease has lapsed" in reason:
            silent_for = self._now() - self._heard.get(worker_id, 0.0)
            if silent_for < HEARD_SECONDS:
                name = self.name_of(worker_id)
                detail = (
                    f"{after.id} was lost ({reason}), but {name} was heard {silent_for:.1f} s ago"
                )
                self.accuse("no loss is blamed on a worker that was heard", detail, after.id)
        elif any(words in reason for words in NOT_THERE):
            name = self.name_of(worker_id)
            if self._now() - self.last_drop(name) < HEARD_SECONDS:
                return  # its word that it is busy may be what was lost
            for run in self._under_way(after.id):
                if (run.worker, run.attempt, run.is_dying) == (name, before.attempt, False):
                    detail = f"{after.id} was lost ({reason}), but {name} runs it"
                    self.accuse("no healthy run is lost", detail, after.id)

    # ---- clients

    def receipt(self, job_id: str) -> None:
        """A client has been told that its job is accepted."""
        self.accepted.setdefault(job_id, self._now())
        if self._stored(job_id) is None:
            self.accuse("accepted means stored", f"{job_id} has a receipt, no record", job_id)

    def told(self, job_id: str, outcome: Outcome) -> None:
        """A client has been told how its job ended."""
        job = self._stored(job_id)
        said = (outcome.status, outcome.result)
        if job is None or (job.status, job.result) != said:
            is_now = "gone" if job is None else job.status.word
            detail = f"its client was told that {job_id} is {outcome.status.word}, it is {is_now}"
            self.accuse("clients are told what is stored", detail, job_id)

    def check_kept(self) -> None:
        """No accepted job may vanish."""
        for job_id in self.accepted:
            if self._stored(job_id) is None:
                self.accuse("no accepted job is lost", f"{job_id} is gone", job_id)

    # ---- runs

    def overlapped(self, old: Run, new: Run) -> None:
        """Two runs overlap; they may if the earlier attempt has no lease and was not confirmed."""
        earlier, later = sorted((old, new), key=lambda run: run.attempt)
        if self.has_no_lease(earlier.worker):
            starts = [self._starts[run.job_id, run.attempt] for run in (earlier, later)]
            if starts[1] - starts[0] >= CONFIRM_SECONDS:
                return
        detail = (
            f"{new.job_id} began on {new.worker} (attempt {new.attempt}) while it ran on "
            f"{old.worker} (attempt {old.attempt}, since {old.started:.3f} s)"
        )
        self.accuse("no two runs of a job overlap", detail, new.job_id)

    def began(self, run: Run, times: int) -> None:
        """A job that bears no second run may begin again only by its own wish or error."""
        job = self._stored(run.job_id)
        if job is None or job.effects is not Effects.AT_MOST_ONCE:
            return
        if times <= 1 + job.failures + job.snoozes:
            return
        detail = f"{run.job_id} begins for the {times}. time after {job.failures} failures"
        self.accuse("no second run where none is borne", detail, run.job_id)

    def ran_again(self, run: Run) -> None:
        detail = f"{run.job_id}, attempt {run.attempt}, was run before {run.worker} began it"
        self.accuse("an attempt runs once", detail, run.job_id)


def _events(before: Job | None, after: Job) -> list[Event] | None:
    """Return what happened between two states of a job; None if that can't be."""
    if before is None:
        return _BEGINNINGS.get(after.status)
    if gives_up_key(before, after) or gets_dependents(before, after):
        return []
    if after.status is Status.QUEUED and after.not_before != before.not_before:
        return [Event.PUT_BACK]
    if after.signals > before.signals:
        is_woken = before.status is Status.WAITING and after.status is Status.QUEUED
        return [Event.WOKEN if is_woken else Event.SIGNALLED]
    is_over = before.status is Status.IN_PROGRESS and after.waits != before.waits
    if is_over and after.status is Status.QUEUED:
        return [Event.PARKED, Event.WOKEN]
    if before.status is Status.IN_PROGRESS and after.status is Status.WAITING:
        return [Event.PARKED]
    if before.status is Status.IN_PROGRESS and after.status is not Status.COMPLETED:
        if after.status is Status.IN_PROGRESS:
            is_new = after.cancel_requested and not before.cancel_requested
            return [Event.CANCEL_REQUESTED if is_new else Event.PROGRESSED]
        if not after.history:
            return None
        event = Event(after.history[-1].outcome)
        return [event] if TRANSITIONS.get((before.status, event)) is after.status else None
    return _STEPS.get((before.status, after.status))


def gives_up_key(before: Job, after: Job) -> bool:
    """True if nothing else is written, which may be at any time."""
    given_up = replace(before, unique_key=None, revision=after.revision)
    return before.unique_key is not None and given_up == after


def gets_dependents(before: Job, after: Job) -> bool:
    """True if nothing else is written, which may be at any time."""
    return after.dependents and replace(before, dependents=True, revision=after.revision) == after


_BEGINNINGS = {
    Status.WAITING: list[Event](),
    Status.QUEUED: list[Event](),
    Status.DISPATCHING: [Event.CLAIMED],
    Status.IN_PROGRESS: [Event.CLAIMED, Event.STARTED],
}
_STEPS = {
    (Status.WAITING, Status.WAITING): [Event.PARKED],
    (Status.WAITING, Status.QUEUED): [Event.WOKEN],
    (Status.WAITING, Status.CANCELLED): [Event.CANCELLED],
    (Status.QUEUED, Status.QUEUED): [Event.CAME_DUE],
    (Status.QUEUED, Status.DISPATCHING): [Event.CLAIMED],
    (Status.QUEUED, Status.IN_PROGRESS): [Event.CLAIMED, Event.STARTED],
    (Status.QUEUED, Status.FAILED): [Event.UNPLACED],
    (Status.QUEUED, Status.CANCELLED): [Event.CANCELLED],
    (Status.DISPATCHING, Status.IN_PROGRESS): [Event.STARTED],
    (Status.DISPATCHING, Status.QUEUED): [Event.RELEASED],
    (Status.DISPATCHING, Status.CANCELLED): [Event.CANCELLED],
    (Status.IN_PROGRESS, Status.COMPLETED): [Event.COMPLETED],
}


def _sentence(before: Job | None, after: Job, events: list[Event]) -> str:
    """Say what was written."""
    if before is None:
        placed = f", started on {after.execution.worker_id}" if events else ""
        return f"stores {after.id} as {after.status.word}{placed}"
    words = " and ".join(event.value for event in events)
    where = ""
    if Event.STARTED in events:
        where = f" on {after.execution.worker_id}, attempt {after.attempt}"
    elif after.error is not None and after.error != before.error:
        where = f" ({after.error.message})"
    return f"writes {after.id}: {words}{where}, now {after.status.word}"
