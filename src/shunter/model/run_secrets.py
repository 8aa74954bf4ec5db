"""What binds a report to the worker that was given the run. Pure.

A run's secret is made from the system's, so all dispatchers of a store know it and none keeps it.
It goes to the worker with the job, and comes back with all that the worker says of the run. A
wrong one is never believed. Our own workers always show theirs. Over HTTP one that is missing is
believed, unless keys are asked for: workers that know nothing of secrets work without.
Spec: docs/spec/jobs.md, section 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from hmac import compare_digest
from typing import Protocol, TypeVar

from shunter.errors import ProtocolError, RunNotProven

Of = TypeVar("Of", bound="OfRun")
"""What is about one run."""

SECRET_BYTES = 16


class OfRun(Protocol):
    """What names a run: its job, and which attempt it is."""

    @property
    def job_id(self) -> str: ...

    @property
    def attempt(self) -> int: ...


class RunSecrets:
    """Makes and checks secrets of runs; with `are_required` none may be missing anywhere."""

    def __init__(self, system_secret: bytes = b"", *, are_required: bool = False) -> None:
        self.are_required = are_required
        self.use(system_secret)

    def use(self, system_secret: bytes) -> None:
        """Make them from the secret that all dispatchers of the store share."""
        self._keyed = hashlib.blake2b(key=system_secret, digest_size=SECRET_BYTES)

    def of(self, job_id: str, attempt: int) -> bytes:
        """Return the secret of a run."""
        made = self._keyed.copy()
        made.update(f"{job_id}/{attempt}".encode())
        return made.digest()

    def is_proven(self, job_id: str, attempt: int, shown: bytes) -> bool:
        """True if what was shown is the secret of the run."""
        return compare_digest(shown, self.of(job_id, attempt))

    def check(self, job_id: str, attempt: int, shown: bytes) -> None:
        """Raise if what was shown is not the secret of the run, or nothing was and must be."""
        is_waived = not shown and not self.are_required
        if not is_waived and not self.is_proven(job_id, attempt, shown):
            raise RunNotProven(job_id, attempt)

    def sifted(
        self, said: Sequence[Of], secrets: Sequence[bytes]
    ) -> tuple[list[Of], list[RunNotProven]]:
        """Return what is to be believed, and a refusal for each of the others.

        There is a secret for each run of which something is said, in the same order.
        """
        if len(secrets) != len(said):
            raise ProtocolError(f"{len(secrets)} secrets for {len(said)} runs; send one for each")
        believed: list[Of] = []
        refused: list[RunNotProven] = []
        for each, shown in zip(said, secrets, strict=True):
            if self.is_proven(each.job_id, each.attempt, shown):
                believed.append(each)
            else:
                refused.append(RunNotProven(each.job_id, each.attempt))
        return believed, refused
