"""Whose jobs somebody submits and sees: those of one namespace, or all.

Gateways make a scope of the key that a peer has shown and hand it on with what the peer asks
for. A job out of scope is answered exactly like one that does not exist. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from shunter.model.job import Job
from shunter.model.key import Key


class JobScope(Struct, frozen=True):
    """What one peer submits and sees: jobs of its namespace, or with `sees_all` any."""

    namespace: str = ""
    sees_all: bool = False

    def listed(self, asked: str | None = None) -> str | None:
        """Return the namespace to list, None for all, where this one or any was asked for."""
        return asked if self.sees_all or asked is not None else self.namespace

    def covers(self, asked: str | None) -> bool:
        """True if there may be something to list for this peer where that was asked for."""
        return self.sees_all or asked in (None, self.namespace)

    def shows(self, job: Job | None) -> bool:
        """True if a job is there, and for this peer to see."""
        return job is not None and (self.sees_all or job.namespace == self.namespace)

    def shown(self, jobs: Iterable[Job | None]) -> list[Job | None]:
        """Return the jobs with None in place of those that this peer must not see."""
        return [job if self.shows(job) else None for job in jobs]


EVERYTHING = JobScope(sees_all=True)
"""The scope of everybody where no keys are asked for."""


def scope_of(key: Key | None) -> JobScope:
    """Return what the owner of a key submits and sees; None where no keys are asked for."""
    return EVERYTHING if key is None else JobScope(key.namespace, key.sees_all)
