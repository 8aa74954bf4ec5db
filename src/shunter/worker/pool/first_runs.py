"""Runs of whose jobs nothing is kept yet: their keys say so, so that their children needn't ask.

A key goes wherever its run goes, to the child and back; its last bit costs no message, and leaves
keys in the order in which they were given.
"""

from __future__ import annotations

from collections.abc import Container

from shunter.wire.messages import Assignment


def run_key(number: int, *, is_first: bool = False) -> int:
    """Return the key of a run by its number, and whether anything of its job can be kept."""
    return number << 1 | is_first


def is_first_run(key: int) -> bool:
    """True if a key is that of a run of whose job nothing was kept before it."""
    return bool(key & 1)


def has_nothing_kept(job: Assignment, begun: Container[str] | None) -> bool:
    """True if this is the first run of a job that is not among those which may have kept steps.

    None says that this is not known, and that the journal must be asked for.
    """
    return begun is not None and job.attempt == 1 and job.job_id not in begun
