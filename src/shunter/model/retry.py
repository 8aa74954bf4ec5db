"""How long to wait before a failed job is tried again. Pure: the jitter is an argument."""

from __future__ import annotations

from msgspec import Struct


class Retry(Struct, frozen=True, omit_defaults=True):
    """Try again up to `limit` times, waiting longer each time.

    The n-th wait is `delay * factor ** (n - 1)` seconds, at most `max_delay`, then shortened
    by up to the share `jitter` so that jobs which failed together don't return together.
    """

    limit: int = 0
    delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 300.0
    jitter: float = 0.2


NO_RETRY = Retry()

AFTER_LOSS = Retry(delay=0.25, max_delay=30.0)
"""Waits between a job's losses. Its limit is not used: losses have their own, `max_losses`."""


def backoff(retry: Retry, failures: int, *, jitter: float) -> float:
    """Return the wait after the given number of failures; `jitter` is random in [0, 1)."""
    exponent = min(failures - 1, 64)
    full = min(retry.delay * retry.factor**exponent, retry.max_delay)
    return full * (1.0 - retry.jitter * jitter)
