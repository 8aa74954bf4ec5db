"""The secrets that came with a worker's runs, until nothing more is to be said of those.

A dispatcher believes what is said of a run by whoever can show its secret. They stay in the
worker's parent: no handler gets to see them. Pure. Spec: docs/spec/jobs.md, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shunter.model.run_secrets import Of
from shunter.wire.messages import Assignment

Run = tuple[str, int]


class ShownSecrets:
    """Secrets by job and attempt."""

    def __init__(self) -> None:
        self._secrets: dict[Run, bytes] = {}

    def __len__(self) -> int:
        return len(self._secrets)

    def took(self, jobs: Sequence[Assignment], secrets: Sequence[bytes]) -> None:
        """Keep what came with jobs."""
        self._secrets.update(
            ((job.job_id, job.attempt), secret) for job, secret in zip(jobs, secrets, strict=False)
        )

    def of(self, said: Iterable[Of]) -> tuple[bytes, ...]:
        """Return what is to be shown with what is said of runs, one for each."""
        return tuple([self._secrets.get((each.job_id, each.attempt), b"") for each in said])

    def done_with(self, said: Iterable[Of]) -> None:
        """Forget runs of which all has been said."""
        for each in said:
            self._secrets.pop((each.job_id, each.attempt), None)

    def clear(self) -> None:
        self._secrets.clear()
