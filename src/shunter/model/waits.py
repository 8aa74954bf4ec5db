"""What a parked run waits for, as its job's record says it. Pure."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from msgspec import Struct

MAX_CHILDREN = 1_000
"""How many jobs one run may wait for at a time."""

_PREFIX = 90


class WaitKind(StrEnum):
    """What ends a wait."""

    SLEEP = "sleep"
    SIGNAL = "signal"
    CHILDREN = "children"


class Waits(Struct, frozen=True, omit_defaults=True):
    """The wait that a job is in, or was in last: by this its next run knows that it is over.

    `name` is the step's, `signal` that of the signal waited for, `children` how many jobs. `chunks`
    is how many the job had emitted by then: its next run, which begins anew, repeats as many.
    """

    name: str
    kind: WaitKind
    since: float
    until: float | None = None
    signal: str = ""
    children: int = 0
    chunks: int = 0


def child_ids(job_id: str, name: str, count: int) -> list[str]:
    """Return the ids of the jobs that a job waits for under a name: the same ones each time."""
    made = hashlib.blake2b(f"{job_id}\0{name}".encode(errors="replace"), digest_size=8).hexdigest()
    return [f"{job_id[:_PREFIX]}.{made}.{number}" for number in range(count)]
