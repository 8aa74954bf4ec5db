"""What a job's options may be, whoever sets them: a client for one job, a handler for its type.

Pure. Each fault names its field, what was found, and what to send instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from shunter.model.queueing import PRIORITY_LIMIT
from shunter.model.retry import Retry

MAX_SECONDS = 10 * 365 * 86400.0
MAX_RETRIES = 1_000_000
MAX_FACTOR = 1000
MAX_MOMENT = 1e11
MAX_KEY_LENGTH = 512
MAX_NOTE_BYTES = 8 << 10
MAX_COROUTINES = 10_000
MAX_THREADS = 1_000
"""How many jobs may be in one process of a worker, as coroutines and as threads."""


def option_faults(
    *, priority: int | None, timeout: float | None, retry: Retry | None
) -> Iterator[tuple[str, str]]:
    """Yield the fields that are out of range, each with its reason."""
    if priority is not None and abs(priority) > PRIORITY_LIMIT:
        yield "priority", f"found {priority}; send -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}"
    if timeout is not None and not 0 < timeout <= MAX_SECONDS:
        yield "timeout", f"found {timeout}; send seconds above 0 up to {MAX_SECONDS:.0f}"
    if retry is None:
        return
    if not 0 <= retry.limit <= MAX_RETRIES:
        yield "retry.limit", f"found {retry.limit}; send 0 to {MAX_RETRIES}"
    for field in ("delay", "max_delay"):
        seconds = getattr(retry, field)
        if not 0 <= seconds <= MAX_SECONDS:
            yield f"retry.{field}", f"found {seconds}; send seconds from 0 to {MAX_SECONDS:.0f}"
    if not 1 <= retry.factor <= MAX_FACTOR:
        yield "retry.factor", f"found {retry.factor}; send 1 to {MAX_FACTOR}"
    if not 0 <= retry.jitter <= 1:
        yield "retry.jitter", f"found {retry.jitter}; send 0 to 1"


def concurrency_fault(concurrency: object, *, is_async: bool) -> str | None:
    """Say what is wrong with a handler's `concurrency`, or nothing."""
    most = MAX_COROUTINES if is_async else MAX_THREADS
    if type(concurrency) is int and 1 <= concurrency <= most:
        return None
    kind = "coroutines of an async def" if is_async else "threads of a plain function"
    return f"found {concurrency!r}; give a whole number from 1 to {most:,} ({kind})"


def moment_fault(moment: float) -> str | None:
    """Say what is wrong with a point in time, or nothing."""
    if math.isfinite(moment) and 0 <= moment <= MAX_MOMENT:
        return None
    return f"found {moment}; send seconds since 1970"
