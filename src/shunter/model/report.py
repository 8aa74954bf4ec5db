"""What is said of one run of a job: which run it is, how far it has come, how it ended.

All protocols say the same; `wire/` writes these values as they are, as arrays.
"""

from __future__ import annotations

from msgspec import Struct

from shunter.model.job import Failure
from shunter.model.retry import Retry


class Held(Struct, frozen=True, order=True, array_like=True, forbid_unknown_fields=True):
    """A job that the worker has, running or about to."""

    job_id: str
    attempt: int


class Advance(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How far one run has come. `waited` is how long the job was in its worker before it began."""

    job_id: str
    attempt: int
    done: float
    total: float | None = None
    note: str = ""
    waited: float | None = None


class Report(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How one run ended: with a result, with an error, or with the loss of its process.

    `retry` is the handler's policy, which counts where the job has none of its own. `waited` is how
    long the job was in its worker before the handler began, and `ran` how long the handler took, in
    seconds by the worker's clock; a worker that can't tell leaves them out.
    """

    job_id: str
    attempt: int
    result: bytes | None = None
    error: Failure | None = None
    log: str = ""
    retry: Retry | None = None
    waited: float | None = None
    ran: float | None = None
