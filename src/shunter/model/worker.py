"""The worker record: how a worker appears to dispatchers, after seed 002's WorkerSchema.

`jobs` is not stored but read from the jobs themselves, so that the two can't disagree.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from shunter.model.retry import Retry

PLAIN_PREFIX = "plain:"
"""Ids of workers that know only the plain level begin so; they can't be told to stop."""


class WorkerKind(StrEnum):
    """Which dialogue the worker speaks."""

    FULL = "full"
    PLAIN = "plain"


class Handler(Struct, frozen=True, omit_defaults=True):
    """A type of job that a worker does, and what it wants for jobs that say nothing else."""

    type: str
    priority: int = 0
    timeout: float | None = None
    retry: Retry | None = None


class Worker(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker, as the store knows it."""

    id: str
    kind: WorkerKind
    hostname: str
    port: int
    handlers: tuple[Handler, ...]
    max_jobs: int
    incarnation: int = 0
    registered: float
    last_pinged: float
    failed_ping_count: int = 0
    last_error: str = ""
    is_resigned: bool = False
    is_dead: bool = False
    jobs: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        if self.is_dead:
            return "dead"
        return "resigned" if self.is_resigned else "alive"
