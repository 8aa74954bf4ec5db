"""What a job's options may be, whoever sets them: a client for one job, a handler for its type.

Pure. Each fault names its field, what was found, and what to send instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from shunter.model.job import Effects
from shunter.model.queue_order import PRIORITY_LIMIT
from shunter.model.retry import Retry
from shunter.model.unique import During, Then, Unique

MAX_SECONDS = 10 * 365 * 86400.0
MAX_RETRIES = 1_000_000
MAX_FACTOR = 1000
MAX_MOMENT = 1e11
MAX_KEY_LENGTH = 512
MAX_NOTE_BYTES = 8 << 10
MAX_ERROR_NAMES = 16
MAX_ERROR_NAME_LENGTH = 128
MAX_SNOOZES = 1000
MAX_COROUTINES = 10_000
MAX_THREADS = 1_000
"""How many jobs may be in one process of a worker, as coroutines and as threads."""


def option_faults(
    *,
    priority: int | None,
    timeout: float | None,
    retry: Retry | None,
    effects: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the fields that are out of range, each with its reason."""
    if effects is not None and effects not in set(Effects):
        yield "effects", f"found {effects[:64]!r}; send {' or '.join(Effects)}"
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
    if retry.on_timeout and effects == Effects.AT_MOST_ONCE:
        yield (
            "retry.on_timeout",
            "found beside effects at_most_once, and a run that was cut off may have had its "
            "effect; leave one of the two out",
        )
    for field in ("on", "never"):
        if reason := _names_fault(getattr(retry, field)):
            yield f"retry.{field}", reason


def _names_fault(names: tuple[str, ...]) -> str | None:
    if len(names) > MAX_ERROR_NAMES:
        return f"found {len(names)} names; send at most {MAX_ERROR_NAMES}"
    for name in names:
        if not 1 <= len(name) <= MAX_ERROR_NAME_LENGTH:
            return f"{len(name)} characters; send a class's name of 1 to {MAX_ERROR_NAME_LENGTH}"
    return None


def concurrency_fault(concurrency: object, *, is_async: bool) -> str | None:
    """Say what is wrong with a handler's `concurrency`, or nothing."""
    most = MAX_COROUTINES if is_async else MAX_THREADS
    if type(concurrency) is int and 1 <= concurrency <= most:
        return None
    kind = "coroutines of an async def" if is_async else "threads of a plain function"
    return f"found {concurrency!r}; give a whole number from 1 to {most:,} ({kind})"


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")
TRACEPARENT_RULE = "00-, 32 hexadecimal digits, -, 16 of them, -, two of them, as W3C has it"


def is_traceparent(text: str) -> bool:
    """True if a text names a span as W3C's Trace Context does."""
    return _TRACEPARENT.match(text) is not None


RUN_PATTERN = r"^[^\s\x00-\x1f\x7f]+\Z"
RUN_RULE = f"1 to {MAX_KEY_LENGTH} characters, no spaces or line breaks"
_RUN = re.compile(RUN_PATTERN)


def run_fault(run: str) -> str | None:
    """Say what is wrong with the name of a run of a workflow, or nothing."""
    if len(run) <= MAX_KEY_LENGTH and _RUN.match(run):
        return None
    found = repr(run[:64]) if len(run) <= MAX_KEY_LENGTH else f"{len(run)} characters"
    return f"found {found}; send {RUN_RULE}"


def moment_fault(moment: float) -> str | None:
    """Say what is wrong with a point in time, or nothing."""
    if math.isfinite(moment) and 0 <= moment <= MAX_MOMENT:
        return None
    return f"found {moment}; send seconds since 1970"


def unique_faults(unique: Unique) -> Iterator[tuple[str, str]]:
    """Yield the fields that are out of range, each with its reason."""
    if not 1 <= len(unique.key) <= MAX_KEY_LENGTH:
        yield "unique.key", f"{len(unique.key)} characters; send 1 to {MAX_KEY_LENGTH}"
    if unique.within is not None and not 0 < unique.within <= MAX_SECONDS:
        send = f"seconds above 0 up to {MAX_SECONDS:.0f}"
        yield "unique.within", f"found {unique.within}; send {send}"
    if unique.during and unique.during not in set(During):
        yield "unique.during", f"found {unique.during[:64]!r}; send {' or '.join(During)}"
    if unique.then not in set(Then):
        yield "unique.then", f"found {unique.then[:64]!r}; send {', '.join(Then)}"
