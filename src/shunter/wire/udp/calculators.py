"""The register of calculators: who is there, who is free, who has which task. Pure.

A calculator has one task at a time. It is free when it says `ready`, or when it has completed
its task. One that did not confirm a task is unavailable until its next heartbeat. One whose task
was taken away, because it took too long, gets nothing until it has shown itself free: it may
still be at work, and a late `completed_task` would otherwise be taken for that of its next task.
Spec: docs/spec/udp.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from shunter.model.report import Held
from shunter.wire.udp.peers import Peer

TaskId = int | str


class Joined(Struct, frozen=True):
    """The calculator is free; `handlers` are the types of job that it does."""

    address: Peer
    handlers: tuple[str, ...]


class Left(Struct, frozen=True):
    """The calculator is unavailable."""

    address: Peer


class NotTaken(Struct, frozen=True):
    """The calculator never confirmed the task, or refused it."""

    address: Peer
    job: Held
    is_refused: bool = False


class Forgotten(Struct, frozen=True):
    """The calculator says that it is free, so it does not have the task that it confirmed."""

    address: Peer
    job: Held


class Done(Struct, frozen=True):
    """The calculator has completed the task that it was given."""

    address: Peer
    job: Held


class NotAsked(Struct, frozen=True):
    """A completion of a task that, as far as we know, the calculator was not given."""

    address: Peer
    task_id: TaskId


Effect: TypeAlias = Joined | Left | NotTaken | Forgotten | Done | NotAsked


class _State(Enum):
    FREE = "free"
    OFFERED = "a task was sent, its confirmation is awaited"
    AT_WORK = "the task is confirmed"
    OCCUPIED = "busy with something that is not ours, or not ours any more"


class GivenTask(Struct, frozen=True):
    """What a calculator was given: the job, and the name that it has there."""

    job: Held
    task_id: TaskId


class _Calculator:
    __slots__ = (
        "confirmed_at", "doubted_at", "handlers", "is_owed", "last_word", "state", "task",
        "was_busy",
    )  # fmt: skip

    def __init__(self, handlers: tuple[str, ...], now: float) -> None:
        self.handlers = handlers
        self.last_word = now
        self.state = _State.OCCUPIED
        self.task: GivenTask | None = None
        self.confirmed_at = 0.0
        self.doubted_at: float | None = None
        self.was_busy = False
        self.is_owed = False
        """Its completion is being stored, and not confirmed yet."""


class Calculators:
    """All calculators of one dispatcher.

    A `ready` of one that has a task may have been sent before the task arrived, and overtaken. The
    task is then not given to another at once, but after a while in which the calculator has
    neither said `busy` nor completed it. A `ready` that wants an answer is said to give a task
    back: it is believed at once, unless it comes right after the confirmation.
    """

    CROSSING = 0.1
    """A `ready` this soon after a confirmation, in seconds, may always have been overtaken."""

    DOUBT = 1.5
    """How long a `ready` stands before it is believed."""

    def __init__(self, *, heartbeat_timeout: float, default_handlers: tuple[str, ...]) -> None:
        self._heartbeat_timeout = heartbeat_timeout
        self._default_handlers = default_handlers
        self._known: dict[Peer, _Calculator] = {}

    def __len__(self) -> int:
        return len(self._known)

    def present(self) -> Iterator[Peer]:
        """Yield all that have spoken of late."""
        return iter(self._known)

    def task_of(self, address: Peer) -> GivenTask | None:
        known = self._known.get(address)
        return None if known is None else known.task

    def is_free(self, address: Peer) -> bool:
        known = self._known.get(address)
        return known is not None and known.state is _State.FREE

    # ---- what calculators say

    def heartbeat(
        self,
        address: Peer,
        *,
        is_ready: bool,
        handlers: tuple[str, ...] | None,
        now: float,
        is_request: bool = False,
    ) -> list[Effect]:
        """Register a calculator, or bring it up to date."""
        known = self._known.get(address)
        is_new = known is None
        if known is None:
            known = self._known[address] = _Calculator(handlers or self._default_handlers, now)
        known.last_word = now
        is_other = handlers is not None and handlers != known.handlers
        if handlers is not None:
            known.handlers = handlers
        match known.state, is_ready:
            case _State.FREE, True:
                return [Joined(address, known.handlers)] if is_other else []
            case _State.FREE, False if known.is_owed:
                return []  # it waits for us, and will be free
            case _State.FREE, False:
                known.state = _State.OCCUPIED
                return [Left(address)]
            case _State.OFFERED, _:
                # It may have been sent before the task arrived.
                known.was_busy = not is_ready
                return []
            case _State.AT_WORK, True if not is_request or now - known.confirmed_at < self.CROSSING:
                if known.doubted_at is None:
                    known.doubted_at = now
                return []
            case _State.AT_WORK, True:
                assert known.task is not None
                return [Forgotten(address, known.task.job), *self._free(address, known)]
            case _State.AT_WORK, False:
                known.doubted_at = None
                return []
            case _State.OCCUPIED, True:
                return self._free(address, known)
        return [Left(address)] if is_new else []

    def completed(self, address: Peer, task_id: TaskId, *, now: float) -> list[Effect]:
        """Take a completion, by whoever was given the task."""
        known = self._known.get(address)
        if known is None:
            return [NotAsked(address, task_id)]
        known.last_word = now
        if known.task is not None and known.task.task_id == task_id:
            known.is_owed = True
            return [Done(address, known.task.job), *self._free(address, known)]
        effects: list[Effect] = [NotAsked(address, task_id)]
        if known.state is _State.OCCUPIED:
            effects += self._free(address, known)
        return effects

    def completion_confirmed(self, address: Peer) -> None:
        """Note that the calculator was told that its completion is stored."""
        if (known := self._known.get(address)) is not None:
            known.is_owed = False

    def confirmed(self, address: Peer, job: Held, *, now: float) -> bool:
        """Take the confirmation of a task; False where it comes too late."""
        known = self._known.get(address)
        if known is None or known.task is None or known.task.job != job:
            return False
        known.last_word = now
        self._at_work(known, now)
        return True

    # ---- what the dispatcher does

    def offered(self, address: Peer, job: Held, task_id: TaskId) -> bool:
        """Note that a task is sent; False if the calculator is not free any more.

        Nor is it while its last completion is not stored: it takes a next task for the
        confirmation of that, and would forget what only we have in memory.
        """
        known = self._known.get(address)
        if known is None or known.state is not _State.FREE:
            return False
        if known.is_owed:
            known.state = _State.OCCUPIED
            return False
        known.state, known.task, known.was_busy = _State.OFFERED, GivenTask(job, task_id), False
        return True

    def unconfirmed(self, address: Peer, job: Held, *, is_refused: bool = False) -> list[Effect]:
        """Give up waiting for a confirmation: the calculator is unavailable.

        One that has said `busy` meanwhile is taken to be at work; should it not be, its next
        `ready` tells.
        """
        known = self._known.get(address)
        if known is None or known.state is not _State.OFFERED or known.task is None:
            return []
        if known.task.job != job:
            return []
        if known.was_busy and not is_refused:
            known.state = _State.AT_WORK
            return []
        del self._known[address]
        return [NotTaken(address, job, is_refused), Left(address)]

    def taken_away(self, address: Peer, job: Held) -> None:
        """Note that a task is not the calculator's any more; it may go on with it all the same."""
        known = self._known.get(address)
        if known is not None and known.task is not None and known.task.job == job:
            known.state, known.task, known.doubted_at = _State.OCCUPIED, None, None

    def tick(self, *, now: float) -> list[Effect]:
        """Drop those that were silent for too long, but for those that have a task of ours.

        A task comes back by its own time-outs, and its completion may still arrive.
        """
        silent = [
            address
            for address, known in self._known.items()
            if known.task is None and now - known.last_word >= self._heartbeat_timeout
        ]
        for address in silent:
            del self._known[address]
        effects: list[Effect] = [Left(address) for address in silent]
        for address, known in self._known.items():
            if known.doubted_at is not None and now - known.doubted_at >= self.DOUBT:
                assert known.task is not None
                effects += [Forgotten(address, known.task.job), *self._free(address, known)]
        return effects

    def _at_work(self, known: _Calculator, now: float) -> None:
        if known.state is not _State.AT_WORK:
            known.state, known.confirmed_at = _State.AT_WORK, now

    def _free(self, address: Peer, known: _Calculator) -> list[Effect]:
        known.state, known.task, known.doubted_at = _State.FREE, None, None
        return [Joined(address, known.handlers)]
