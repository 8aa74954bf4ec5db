"""One run in a child that does several at a time: its context, and what it takes to stop it.

What the handler says of its progress is kept here, until the child passes it on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from shunter.model.parents import Parents
from shunter.wire.messages import Assignment
from shunter.worker.journal_methods import JournalMethods, journal_of
from shunter.worker.pool.parent_line import ParentLine
from shunter.worker.pool.run_output import RunOutput
from shunter.worker.run_seal import RunSeal

if TYPE_CHECKING:
    from shunter.worker.run_journal import RunJournal


class SharedRun(JournalMethods):
    """A run from its beginning to its end. It is the context that its handler gets."""

    __slots__ = (
        "_journal",
        "_line",
        "_on_progress",
        "begun",
        "has_begun",
        "has_ended",
        "is_asked",
        "is_told",
        "job",
        "key",
        "log_told",
        "log_told_at",
        "noted",
        "output",
        "seal",
        "task",
    )

    def __init__(
        self,
        key: int,
        job: Assignment,
        seal: RunSeal,
        output: RunOutput,
        line: ParentLine,
        *,
        begun: float,
        on_progress: Callable[[SharedRun], None],
    ) -> None:
        self.key, self.job, self.seal, self.output, self.begun = key, job, seal, output, begun
        self._on_progress, self._line = on_progress, line
        self._journal: RunJournal | None = None
        self.noted: tuple[float, float | None, bytes] | None = None
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        self.is_asked = False
        self.is_told = False
        self.log_told, self.log_told_at = 0, 0.0
        self.has_ended = False

    @property
    def job_id(self) -> str:
        return self.job.job_id

    @property
    def job_type(self) -> str:
        return self.job.type

    @property
    def scheduled(self) -> float | None:
        return self.job.scheduled

    @property
    def run_id(self) -> str:
        return self.job.run or self.job.job_id

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def traceparent(self) -> str | None:
        return self.job.traceparent

    @property
    def has_journal(self) -> bool:
        """True if the run has used its journal."""
        return self._journal is not None

    @property
    def journal(self) -> RunJournal:
        if self._journal is None:
            self._journal = journal_of(self._line, self.key, self.job, self.seal)
        return self._journal

    @property
    def parents(self) -> Parents:
        return Parents(self.job.parents, self.seal.parent_result)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        if not self.has_ended:
            sealed = self.seal.note(note).encode() if note else b""
            self.noted = (float(done), None if total is None else float(total), sealed)
            self._on_progress(self)

    def cancelled(self) -> bool:
        return self.is_asked or self.has_ended

    def take_word(self) -> bool:
        """True, once, if the handler is to be ended by Terminated."""
        is_told, self.is_told = self.is_told, False
        return is_told
