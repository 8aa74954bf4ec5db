"""One calculator: it has one task at a time, and is busy until its completion is confirmed. Pure.

A dispatcher knows a calculator by its address, and gives each a single task. So a worker with
several slots has as many sessions, each with an address of its own. A task that is here already is
confirmed again and not begun again; while one is under way, every other is refused. A dispatcher
sends another one only when it has taken the end of the one before; so where the confirmation of
that was lost, the next task stands for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set
from typing import Literal, TypeAlias

from msgspec import Struct

from shunter.model.document import NIL
from shunter.model.identity import hook_name, is_name
from shunter.model.job import DEFAULT_TYPE
from shunter.model.parents import NOT_SENT
from shunter.model.report import Held
from shunter.model.retry import Retry
from shunter.wire.messages import Assignment
from shunter.wire.udp.methods import Heartbeat, PerformTask

BUSY_CODE, TYPE_CODE = "busy", "type"

ONCE_MORE = Retry(limit=1)
"""The policy of a task that is tried again after an error; how often is for dispatchers to know."""

UNCONFIRMED_SECONDS = 0.3
"""Within so long a completion is confirmed, if it is at all before it is sent again."""


class Begin(Struct, frozen=True):
    """Confirm the task, and start this run."""

    run: Assignment


class AlreadyHere(Struct, frozen=True):
    """Confirm the task once more."""


class RefuseTask(Struct, frozen=True):
    """Refuse the task, and say why."""

    code: str
    message: str
    field: str = ""


Decision: TypeAlias = Begin | AlreadyHere | RefuseTask


class CalculatorSession:
    """What one calculator is doing, and what it may say of itself."""

    def __init__(
        self, handlers: tuple[str, ...], *, heartbeat: float, has_hooks: bool = False
    ) -> None:
        self._handlers = handlers
        self._hooks = frozenset(map(hook_name, handlers)) if has_hooks else frozenset()
        self._heartbeat = heartbeat
        self._task: PerformTask | None = None
        self._is_leaving = False
        self._ended_at: float | None = None
        self._seen: PerformTask | None = None
        self._told: Heartbeat | None = None
        self._told_at = 0.0

    @property
    def status(self) -> Literal["ready", "busy"]:
        return "busy" if self._is_leaving or self._task is not None else "ready"

    @property
    def task(self) -> PerformTask | None:
        """The task that is here, under way or ended and not yet confirmed."""
        return self._task

    @property
    def has_ended(self) -> bool:
        """True if the task is done, and its completion on its way."""
        return self._ended_at is not None

    @property
    def run(self) -> Held | None:
        """The name that the task has in the pool."""
        return None if self._task is None else run_name(self._task)

    # ---- what it is told

    def offered(self, task: PerformTask, *, under_way: Set[Held] = frozenset()) -> Decision:
        """Decide about a task; `under_way` is what the other sessions do."""
        own = self._task
        if own is not None:
            if (own.task_id, own.attempt) == (task.task_id, task.attempt):
                return AlreadyHere()
            return RefuseTask(BUSY_CODE, f"busy with task {own.task_id}; send it to another")
        if self._is_leaving:
            return RefuseTask(BUSY_CODE, "this calculator is leaving; send it to another")
        job_type = self._type_of(task)
        if job_type is None:
            does = ", ".join(self._handlers)
            return RefuseTask(TYPE_CODE, f"this calculator does {does}; send one of these", "type")
        run = run_name(task)
        if run in under_way:
            return RefuseTask(BUSY_CODE, "a task of this name is under way; send it to another")
        self._task, self._ended_at = task, None
        payload = NIL if task.payload is None else bytes(task.payload)
        assignment = Assignment(
            run.job_id,
            run.attempt,
            job_type,
            payload,
            task.timeout,
            None,
            task.scheduled,
            ONCE_MORE if task.may_retry else None,
            parents=NOT_SENT,  # a task does not say whether it has any
        )
        return Begin(assignment)

    def is_confirmed_by(self, task: PerformTask) -> bool:
        """True if a dispatcher that sends this task must have taken the end of the one here."""
        own = self._task
        is_another = own is not None and (own.task_id, own.attempt) != (task.task_id, task.attempt)
        return is_another and self._ended_at is not None

    def ended(self, *, now: float) -> None:
        """The task is done, and its completion on its way."""
        self._ended_at = now

    def settled(self) -> None:
        """The completion was confirmed, or the task was dropped."""
        self._task, self._ended_at = None, None

    def leave(self) -> None:
        """Take nothing more."""
        self._is_leaving = True

    def _type_of(self, task: PerformTask) -> str | None:
        """Say which handler is meant; a dispatcher of the seed knows nothing of types."""
        wanted = task.type or DEFAULT_TYPE
        if wanted in self._handlers or wanted in self._hooks:
            return wanted
        return self._handlers[0] if task.type is None and len(self._handlers) == 1 else None

    # ---- what it says

    def is_heartbeat_due(self, *, now: float) -> bool:
        """True if to say how it is: now and again, and what has changed and stays so.

        To be asked every few moments. A task that is over by the next time needs no heartbeats:
        its confirmation and its completion say the same. A `busy` right behind a completion is
        held back: whoever has the one would take the other to be about something else.
        """
        stays, self._seen = self._seen is self._task, self._task
        if self._ended_at is not None and now - self._ended_at < UNCONFIRMED_SECONDS:
            return False
        if self._told is None or now - self._told_at >= self._heartbeat:
            return True
        return stays and self._told.status != self.status

    def heartbeat(self, *, now: float) -> Heartbeat:
        """Say how it is, and what it does unless that is what all do who don't say."""
        handlers = None if self._handlers == (DEFAULT_TYPE,) else self._handlers
        has_hooks = True if self._hooks else None
        said = Heartbeat(status=self.status, handlers=handlers, has_hooks=has_hooks)
        self._told, self._told_at = said, now
        return said


def run_name(task: PerformTask) -> Held:
    """Name a run: as the dispatcher does, or where it does not, after the task."""
    job_id = task.job_id
    if job_id is None and isinstance(task.task_id, str) and is_name(task.task_id):
        job_id = task.task_id
    elif job_id is None and isinstance(task.task_id, int):
        job_id = f"task:{task.task_id}"
    elif job_id is None:
        job_id = f"task:{hashlib.sha256(str(task.task_id).encode()).hexdigest()[:24]}"
    return Held(job_id, 1 if task.attempt is None else task.attempt)
