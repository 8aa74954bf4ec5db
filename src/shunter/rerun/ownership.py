"""Whose staging it is: told by the job that runs here, or by the caller."""

from __future__ import annotations

import secrets
import time
from typing import Protocol

from shunter.context import current_context
from shunter.errors import StagingError
from shunter.rerun.staging_names import Owner, staging_name


class Attempt(Protocol):
    """What knows the run, the job and the attempt: a handler's Context, or an Owner."""

    @property
    def run_id(self) -> str: ...

    @property
    def job_id(self) -> str: ...

    @property
    def attempt(self) -> int: ...


def owner_of(run: Attempt | str | None) -> Owner:
    """Return who stages: the given run, or else the job whose handler calls.

    A text names a run that is no job's, as in a script: each start is taken for the one that
    counts, and what earlier ones have left is dropped.
    """
    if isinstance(run, str):
        if not run:
            raise StagingError("run is an empty text; name the run, such as run='2026-11-15'")
        return Owner(run, run, 1)
    known = run if run is not None else current_context()
    if known is None:
        raise StagingError(
            "no handler of a job runs here, so the run is not known; pass run='a name of your "
            "own', or in a thread that a handler has started run=ctx, the handler's Context"
        )
    return Owner(known.run_id, known.job_id, known.attempt)


def new_name(target: str, owner: Owner) -> str:
    """Return a name that nobody has used yet."""
    return staging_name(target, owner, opened=time.time(), unique=secrets.randbits(32))
